"""Raw results to the tables of docs/performance-tables.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ALLOCATORS = {"default": "malloc default", "tuned": "malloc tuned", "best": "best setting"}

Record = dict[str, Any]
Row = tuple[str, str]  # side and allocator


def write_report(path: Path, results: dict[str, Any]) -> None:
    """Put the tables between their markers."""
    publish(path, results["name"], render(results))


def publish(path: Path, name: str, tables: str) -> None:
    """Put the tables of a benchmark into a page, in place of its last ones."""
    write_between(path, *markers(name), tables)


def markers(name: str) -> tuple[str, str]:
    """The lines before and after a benchmark's tables."""
    return f"<!-- benchmark: {name} -->", f"<!-- end of benchmark: {name} -->"


def write_between(path: Path, begin: str, end: str, tables: str) -> None:
    """Put tables between two markers, or at the end of a file that has none."""
    content = path.read_text("utf-8") if path.exists() else "# Performance\n"
    if begin not in content:
        content = f"{content.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = content.partition(begin)
    _, marker, after = rest.partition(end)
    if not marker:
        raise SystemExit(f"{path}: has {begin} without {end}: put it behind the old tables.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{begin}\n{tables}{end}{after}", "utf-8")


def render(results: dict[str, Any]) -> str:
    """All tables with the machine and the commands."""
    name = results["name"]
    parts = [_machine(results), f"![Speed of all sides]({picture(name)})"]
    if results.get("train"):
        parts += ["### Training", _limit(results, "train"), training_table(results), training_ratios(results)]
    if results.get("translate"):
        parts += ["### Translating", _limit(results, "translate"), translation_table(results)]
        parts += [translation_ratios(results), tried_table(results)]
    if results.get("left_out"):
        parts.append("Left out: " + "; ".join(results["left_out"]) + ".")
    parts.append("```\n" + "\n".join(results["commands"]) + "\n```")
    return "\n" + "\n\n".join(part for part in parts if part) + "\n"


def picture(name: str) -> str:
    """Where a benchmark's picture lies, from the report."""
    return f"images/performance-{name}.png"


# --- training -----------------------------------------------------------------------------------------------------


def training_table(results: dict[str, Any]) -> str:
    """A row for each side and allocator, for each batch size: speed, share of the limit, memory."""
    batches = list(dict.fromkeys(record["batch"] for record in results["train"]))
    titles = [f"{batch}: {what}" for batch in batches for what in ("tok/s", "of limit", "peak MB")]
    lines = _heading("toolkit", "allocator", "parameters", *titles)
    gemm = limit(results, "train")
    for side, allocator in rows(results["train"]):
        cells = [side, ALLOCATORS[allocator], _parameters(results, side)]
        for batch in batches:
            same = [record for record in results["train"] if _is(record, side, allocator) and record["batch"] == batch]
            speed = _median(same, "tokens_per_second")
            share = speed * results["flop_per_token"][side] / gemm if same else 0.0
            peak = max((record["peak_megabytes"] for record in same), default=0.0)
            cells += [f"{speed:,.0f}", f"{share:.0%}", f"{peak:,.0f}"] if same else ["–", "–", "–"]
        lines.append(_row(cells))
    return "\n".join(lines)


def training_ratios(results: dict[str, Any]) -> str:
    """How Regard stands to the fastest peer, in words."""
    lines = []
    for batch in dict.fromkeys(record["batch"] for record in results["train"]):
        same = [record for record in results["train"] if record["batch"] == batch]
        lines += _ratios(f"Training, {batch}", same, lambda records: _median(records, "tokens_per_second"))
    return "\n".join(lines)


# --- translating --------------------------------------------------------------------------------------------------


def translation_table(results: dict[str, Any]) -> str:
    """A row for each side and allocator: for each job speed, length of the output and share of the limit; memory."""
    jobs = list(dict.fromkeys(record["job"] for record in results["translate"]))
    scored = [job for job in jobs if any("bleu" in each for each in results["translate"] if each["job"] == job)]
    lines = _heading("toolkit", "allocator", *jobs, *(f"BLEU: {job}" for job in scored), "peak MB")
    for side, allocator in rows(results["translate"]):
        mine = [record for record in results["translate"] if _is(record, side, allocator)]
        cells = [side, ALLOCATORS[allocator]]
        cells += [_speed_cell(results, [record for record in mine if record["job"] == job]) for job in jobs]
        for job in scored:
            values = [record["bleu"] for record in mine if record["job"] == job and "bleu" in record]
            cells.append(f"{statistics.median(values):.1f}" if values else "–")
        cells.append(f"{max(record['peak_megabytes'] for record in mine):,.0f}")
        lines.append(_row(cells))
    return "\n".join(lines)


def _speed_cell(results: dict[str, Any], records: list[Record]) -> str:
    if not records:
        return "–"
    speed = _median(records, "sentences_per_second")
    if records[0]["whole_process"]:
        return f"{1 / speed:.1f} s"
    if records[0]["batch"] == 1:
        return f"{1000 / speed:.1f} ms"
    cell = f"{speed:,.0f}/s of {_median(records, 'tokens_per_sentence'):.1f} tokens"
    if "flop_per_sentence" not in records[0]:
        return cell
    return f"{cell} ({_median(records, 'flop_per_sentence') * speed / limit(results, 'translate'):.0%})"


def translation_ratios(results: dict[str, Any]) -> str:
    """How Regard stands to each peer at its best, in words; by tokens too where outputs differ in length."""
    lines = []
    for job in dict.fromkeys(record["job"] for record in results["translate"]):
        same = [record for record in results["translate"] if record["job"] == job]
        for side in dict.fromkeys(record["side"] for record in same if record["side"].startswith("Regard")):
            own = [record for record in same if record["side"] == side]
            lines += _against_each(f"Translating, {job}", own, _peers_of(own, same))
    return "\n".join(lines)


def _peers_of(own: list[Record], records: list[Record]) -> dict[str, list[Record]]:
    """Peers with their records at their best; the full softmax is not held against a peer's shortlist."""
    peers: dict[str, list[Record]] = {}
    for side, allocator in rows(records):
        mine = [record for record in records if _is(record, side, allocator)]
        if side.startswith("Regard") or mine[0]["shortlist"] > own[0]["shortlist"]:
            continue
        before = peers.get(side)
        if before is None or _median(before, "sentences_per_second") < _median(mine, "sentences_per_second"):
            peers[side] = mine
    return peers


def _against_each(title: str, own: list[Record], peers: dict[str, list[Record]]) -> list[str]:
    if not peers:
        return []
    words = []
    for name, records in peers.items():
        ratio = _median(own, "sentences_per_second") / _median(records, "sentences_per_second")
        by_tokens = _tokens_per_second(own) / _tokens_per_second(records)
        alike = abs(by_tokens / ratio - 1) < 0.01 or own[0]["whole_process"]
        words.append(f"{ratio:.2f}× {name}" + ("" if alike else f" ({by_tokens:.2f}× in tokens)"))
    return [f"- {title}: {own[0]['side']} runs at {', '.join(words)}."]


def tried_table(results: dict[str, Any]) -> str:
    """The settings that the peers were tried with, and which were chosen."""
    tried = results.get("tried", [])
    if not tried:
        return ""
    jobs = list(dict.fromkeys(each["job"] for each in tried))
    lines = [
        "Settings tried on some test sentences, in sentences a second; the one in bold was the best for its job:",
        "",
        *_heading("toolkit", "setting", *jobs),
    ]
    for side, setting in dict.fromkeys((each["side"], each["setting"]) for each in tried):
        speeds = {each["job"]: each for each in tried if (each["side"], each["setting"]) == (side, setting)}
        lines.append(_row([side, setting, *(_tried_cell(speeds.get(job)) for job in jobs)]))
    return "\n".join(lines)


def _tried_cell(tried: Record | None) -> str:
    if tried is None:
        return "–"
    speed = f"{tried['sentences_per_second']:,.0f}"
    return f"**{speed}**" if tried["chosen"] else speed


def _tokens_per_second(records: list[Record]) -> float:
    return float(statistics.median(each["sentences_per_second"] * each["tokens_per_sentence"] for each in records))


# --- shared -------------------------------------------------------------------------------------------------------


def rows(records: Iterable[Record]) -> list[Row]:
    """Sides with their allocators, in the order they came."""
    return sorted(dict.fromkeys((record["side"], record["allocator"]) for record in records))[::-1]


def limit(results: dict[str, Any], section: str) -> float:
    """The machine's FLOP/s, measured between the runs of a section."""
    return float(statistics.median(results["gemm"][section])) * 1e9


def _ratios(title: str, records: list[Record], speed: Callable[[list[Record]], float]) -> list[str]:
    """A line for each of Regard's models."""
    grouped = {row: speed([record for record in records if _is(record, *row)]) for row in rows(records)}
    peers = {row: value for row, value in grouped.items() if not row[0].startswith("Regard")}
    if not peers:
        return []
    lines = []
    for (side, _), own in grouped.items():
        if not side.startswith("Regard"):
            continue
        against = []
        for allocator, words in ALLOCATORS.items():
            alike = {row[0]: value for row, value in peers.items() if row[1] == allocator}
            if alike:
                fastest = max(alike, key=lambda name: alike[name])
                against.append(f"{own / alike[fastest]:.2f}× {fastest} {words}")
        lines.append(f"- {title}: {side} runs at {', '.join(against)}.")
    return lines


def _machine(results: dict[str, Any]) -> str:
    machine = results["machine"]
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:.0f} GiB; {machine['threads']} threads; "
        f"Python {machine['python']}, torch {machine['torch']}. {results['date']}. "
        f"{results['text']} Medians of {results['repeats']} runs each, the sides in turn."
    )


def _limit(results: dict[str, Any], section: str) -> str:
    return f"The machine's limit in these runs: {limit(results, section) / 1e9:.0f} GFLOP/s (float32, 2048³)."


def _parameters(results: dict[str, Any], side: str) -> str:
    count = results.get("parameters", {}).get(side)
    return "–" if count is None else f"{count / 1e6:.1f} M"


def _is(record: Record, side: str, allocator: str) -> bool:
    return bool(record["side"] == side and record["allocator"] == allocator)


def _median(records: Iterable[Record], key: str) -> float:
    values = [record[key] for record in records]
    return statistics.median(values) if values else 0.0


def _heading(*titles: str) -> list[str]:
    return [_row(titles), "|" + "---|" * len(titles)]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
