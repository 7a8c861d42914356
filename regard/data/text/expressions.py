"""A check against catastrophic backtracking in the regular expressions of foreign tokenizers.

The regex engine of `tokenizers` backtracks: `(a+)+b` takes exponential time on a line of forty characters.
Tokenizers in use need no such expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_UNBOUNDED = 2  # unbounded repetitions in one alternative
MOST_WAYS = 64  # combinations of the bounded repetitions in one alternative
MOST_TIMES = 100  # limit of a bounded repetition

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
    """Counters of a group: its current and its most expensive alternative."""

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
    """Whether matching from any position takes at most quadratic time in the length of the line.

    A repeated group may contain neither a repetition nor an alternation, and an alternative only a few repetitions.
    Backreferences, named groups, conditionals and recursion are rejected.
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
        repeated = any(found[name] for name in ("repeat", "open", "choice"))  # a quantifier may not follow these
        if groups[-1].unbounded > MOST_UNBOUNDED or groups[-1].ways > MOST_WAYS:
            return False
    return len(groups) == 1


def _repeat(found: re.Match[str], group: _Group, closed: _Group | None) -> bool:
    """Count a quantifier, which may follow a group `closed`; False if the expression is rejected."""
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
