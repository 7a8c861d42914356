"""Look records of watched sentences during training: `watch.jsonl` in the model folder.

Each line holds one sentence at one validation: the update, and the look record without steps, layers and heads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError, RegardError
from regard.look.record import FORMAT, Look, Moment
from regard.storage.files import write_bytes
from regard.storage.reading import check_regular, parse_json

WATCH = "watch.jsonl"


def keep_moment(folder: Path, update: int, looks: Sequence[Look]) -> None:
    """Append the looks of a validation; lines of this and later updates, left by a crash, are removed."""
    path = folder / WATCH
    lines = path.read_text("utf-8", errors="replace").splitlines() if path.exists() else []
    kept = [line for line in lines if _update_of(line) < update]
    slim = [look.model_copy(update={"attention": {}, "steps": []}).to_dict() for look in looks]
    kept += [json.dumps({"update": update, "look": look}, ensure_ascii=False, allow_nan=False) for look in slim]
    write_bytes(path, "".join(f"{line}\n" for line in kept).encode())


def _update_of(line: str) -> float:
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # a line that was damaged


def read_moments(folder: Path) -> list[tuple[int, Look]]:
    """All lines of a folder, in training order."""
    path = folder / WATCH
    if not path.exists():
        raise DataError(
            f'{path}: is not there, for no sentence was watched: train with `regard train --watch-sentence "…"`.'
        )
    found = []
    check_regular(path, DataError)
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        try:
            record: dict[str, Any] = parse_json(line.encode())
            current = record["look"]["format"] == FORMAT
            if current:
                found.append((int(record["update"]), Look.from_dict(record["look"])))
        except (ValueError, KeyError, TypeError, RegardError):
            raise DataError(f"{path}, line {number}: is damaged: remove that line to read the others.") from None
        if not current:
            raise DataError(f"{path}: was written by another version of Regard: train again to watch the sentence.")
    return found


def watched_look(folder: str | Path, sentence: str | None = None) -> Look:
    """The last look at a watched sentence (by default the first one), with all its moments in `over_time`."""
    lines = read_moments(Path(folder))
    watched = list(dict.fromkeys(look.source.text for _, look in lines))
    if not watched:
        raise DataError(f"{Path(folder) / WATCH}: holds no validation yet: wait for the first one.")
    wanted = watched[0] if sentence is None else sentence
    own = [(update, look) for update, look in lines if look.source.text == wanted]
    if not own:
        known = "; ".join(f'"{each}"' for each in watched)
        raise ConfigError(f"{wanted!r} was not watched in this training, but {known}: choose one of these.")
    moments = [
        Moment(update=update, target=look.target, alignment=look.alignment)
        for update, look in own
        if look.alignment is not None
    ]
    return own[-1][1].model_copy(update={"over_time": moments})
