"""Which regular expressions of a foreign tokenizer are run: those that cannot take for ever.

The engine of `tokenizers` backtracks, so an expression such as `(a+)+b` needs more time than there is for a line of
forty characters. Tokenizers in use need nothing of the kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_UNBOUNDED = 2  # repetitions without an end in one alternative
MOST_WAYS = 64  # in which the bounded repetitions of one alternative can be taken
MOST_TIMES = 100  # in a bounded repetition

_TOKEN = re.compile(
    r"""(?P<open>\((?:\?(?:[imx-]*:|<?[=!]|>))?)
    |(?P<close>\))
    |(?P<choice>\|)
    |(?P<repeat>[*+?]|\{(?P<least>\d*)(?P<range>,?)(?P<most>\d*)\})[?+]?
    |\[\^?\]?(?:[^\\\[\]]|\\.(?:\{[^}]*\})?|\[(?:[^\\\[\]]|\\.)*\])*\]    # a set, and sets or [:classes:] inside
    |\\[pP]\{\^?\w+\}|\\x\{[0-9a-fA-F]+\}|\\[^0-9gkpPx]                   # a property, a code, an escape
    |[^\\\[\](){}|*+?]""",
    re.VERBOSE | re.DOTALL,
)


@dataclass
class _Group:
    """The costliest alternative of a group so far."""

    unbounded: int = 0
    ways: int = 1
    most_unbounded: int = 0
    most_ways: int = 1
    choice: bool = False

    def next_alternative(self) -> None:
        self.most_unbounded = max(self.most_unbounded, self.unbounded)
        self.most_ways = max(self.most_ways, self.ways)
        self.unbounded, self.ways = 0, 1


def is_tame(expression: str) -> bool:
    """Whether the time that an expression takes from any place of a line grows with its square at most.

    A group that is repeated may hold neither a repetition nor a choice, and an alternative few repetitions. References
    to groups, named groups, conditions and recursion are never tame.
    """
    groups, closed, repeated, place = [_Group()], None, True, 0
    while place < len(expression):
        found = _TOKEN.match(expression, place)
        if found is None:
            return False
        place, group = found.end(), groups[-1]
        if found["repeat"]:
            if repeated or not _repeat(found, group, closed):
                return False
        elif found["open"]:
            groups.append(_Group())
        elif found["choice"]:
            group.next_alternative()
            group.choice = True
        elif found["close"]:
            if len(groups) == 1:
                return False
            groups.pop().next_alternative()
            groups[-1].unbounded += group.most_unbounded
            groups[-1].ways *= group.most_ways
            groups[-1].choice |= group.choice
        closed = group if found["close"] else None
        repeated = any(found[name] for name in ("repeat", "open", "choice"))  # nothing that could be repeated
        if groups[-1].unbounded > MOST_UNBOUNDED or groups[-1].ways > MOST_WAYS:
            return False
    return len(groups) == 1


def _repeat(found: re.Match[str], group: _Group, closed: _Group | None) -> bool:
    """Count a repetition, of the group that was closed just before it if one was; False if it is not tame."""
    sign = found["repeat"]
    least = int(found["least"] or 0)
    if sign == "?":
        most: int | None = 1
    elif sign in "*+" or (found["range"] and not found["most"]):
        most = None
    else:
        most = int(found["most"]) if found["range"] else least
    if closed is not None and most != 1 and (closed.choice or closed.most_unbounded or closed.most_ways > 1):
        return False
    if least > MOST_TIMES or (most or 0) > MOST_TIMES:
        return False
    if most is None:
        group.unbounded += 1
    else:
        group.ways *= max(1, most - least + 1)
    return True
