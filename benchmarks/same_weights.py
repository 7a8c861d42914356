"""A peer that translates with Regard's weights, each job with the setting that is the best for it on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peer_environment import PeerEnvironment
from benchmarks.process import Finished, environment, run
from benchmarks.side import Job, Setting, Translated, Tried
from benchmarks.text import Text

TUNING_SENTENCES = 512
TUNING_LONE_SENTENCES = 40


@dataclass(frozen=True)
class Choice:
    """Settings for a driver, and the allocator it runs with."""

    settings: dict[str, Any]
    allocator: str

    def words(self) -> str:
        """For people."""
        given = {key.replace("_", " "): value for key, value in self.settings.items()}
        named = [key if value is True else f"{key} {value}" for key, value in given.items()]
        return ", ".join([*named, "malloc tuned" if self.allocator == "tuned" else "malloc default"])


class Driver:
    """Translates with a script that runs in the peer's environment; see translate_with_*.py for its command line."""

    def __init__(self, peer: PeerEnvironment, script: str) -> None:
        self.peer = peer
        self.script = Path(__file__).with_name(script)
        self.chosen: dict[tuple[int, int | None], Choice] = {}  # by beam and batch of a job

    def export(self, door: str, lender: Path, setting: Setting) -> Path:
        """`regard export` of the lender's model."""
        out = setting.folder / "model"
        command: list[str | Path] = [sys.executable, "-m", "regard", "export", lender / "model", "--to", door]
        variables = environment(setting.threads, setting.allocator)
        run([*command, "--out", out], setting.folder, variables, setting.folder / "log.txt")
        return out

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """With the setting that was chosen for the job."""
        choice = self.chosen[job.beam, job.batch]
        output = setting.folder / "output.txt"
        results, finished = self.run(text, job, [choice], job.sentences, model, setting, output)
        result = results[0]
        return Translated(result["sentences"], result["seconds"], result["tokens"], finished, output)

    def tune(
        self, text: Text, job: Job, model: Path, setting: Setting, candidates: Sequence[dict[str, Any]]
    ) -> list[Tried]:
        """Try these settings, then the best of them with the tuned allocator."""
        most = TUNING_LONE_SENTENCES if job.batch == 1 else TUNING_SENTENCES
        sentences = min(most, text.test_sentences)
        tried: list[tuple[Choice, float]] = []

        def measure(choices: list[Choice]) -> None:
            results, _ = self.run(text, job, choices, sentences, model, setting, setting.folder / "output.txt")
            tried.extend(
                (choice, sentences / result["seconds"]) for choice, result in zip(choices, results, strict=True)
            )

        measure([Choice(settings, "default") for settings in candidates])
        measure([Choice(fastest(tried).settings, "tuned")])
        best = self.chosen[job.beam, job.batch] = fastest(tried)
        return [Tried(job.name, choice.words(), speed, choice == best) for choice, speed in tried]

    def run(
        self,
        text: Text,
        job: Job,
        choices: list[Choice],
        sentences: int | None,
        model: Path,
        setting: Setting,
        output: Path,
    ) -> tuple[list[dict[str, Any]], Finished]:
        """All the choices in one process (they share an allocator); what the driver printed for each."""
        command: list[str | Path] = [self.peer.python, "-P", self.script, model / "model"]
        command += [text.raw("test", text.source), output, str(job.beam), str(sentences or 0)]
        command += [json.dumps([choice.settings for choice in choices])]
        variables = environment(setting.threads, choices[0].allocator) | {"HF_HUB_OFFLINE": "1"}
        finished = run(command, setting.folder, variables, setting.folder / "log.txt")
        return [json.loads(line) for line in finished.lines if line.startswith('{"sentences"')], finished


def fastest(tried: Sequence[tuple[Choice, float]]) -> Choice:
    """The choice with the greatest speed."""
    return max(tried, key=lambda pair: pair[1])[0]
