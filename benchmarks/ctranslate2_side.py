"""CTranslate2 with Regard's weights: `regard export --to ctranslate2`. It only translates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.cost import transformer
from benchmarks.peer_environment import PeerEnvironment, Recipe
from benchmarks.process import Finished
from benchmarks.same_weights import Driver
from benchmarks.side import BatchSize, Job, Setting, Translated, Tried
from benchmarks.text import Text
from regard.decoding.engines.ctranslate2 import vocabulary_map
from regard.decoding.shortlist import read_shortlist
from regard.inference.folder import read_folder

RECIPE = Recipe("ctranslate2==4.8.4", ("numpy", "pyyaml", "tokenizers==0.23.3"), torch=False)
BATCHES = (32, 64, 128)


class CTranslate2:
    """Full softmax, or its vocabulary map with the pieces of Regard's shortlist."""

    own_batches = True
    allocators: tuple[str, ...] = ()
    translation_allocators: tuple[str, ...] = ("best",)

    def __init__(self, folder: Path, vocabulary: int, shortlist: bool) -> None:
        self.shortlist = shortlist
        self.name = "CTranslate2 4.8.4" + (", use_vmap" if shortlist else "")
        self.borrows: str | None = "Regard transformer, shortlist" if shortlist else "Regard transformer"
        self.cost = transformer(vocabulary)
        self.environment = PeerEnvironment(folder, RECIPE, None)
        self.driver = Driver(self.environment, "translate_with_ctranslate2.py")

    def set_up(self) -> None:
        """Install it into its environment."""
        self.environment.set_up()

    def train(self, text: Text, batch: BatchSize, minutes: float, setting: Setting) -> tuple[list[float], Finished]:
        """It does not."""
        raise NotImplementedError(self.name)

    def make_model(self, text: Text, epochs: float, lender: Path, setting: Setting) -> int:
        """An export of the lender's."""
        folder = self.driver.export("ctranslate2", lender, setting)
        if self.shortlist:
            read = read_folder(lender / "model")
            shortlist = read_shortlist(read.path, read.source_tokenizer, read.target_tokenizer)
            assert shortlist is not None
            written = vocabulary_map(shortlist, read.source_tokenizer, read.target_tokenizer)
            (folder / "vmap.txt").write_text(written, "utf-8")
        return int((lender / "parameters.txt").read_text("utf-8"))

    def tune(self, text: Text, job: Job, model: Path, setting: Setting) -> list[Tried]:
        """Threads over batches or within them, size of batches, float32 or int8, allocator."""
        settings = candidates(job, setting.threads, self.shortlist)
        return self.driver.tune(text, job, model, setting, settings)

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """At its best setting."""
        return self.driver.translate(text, job, model, setting)


def candidates(job: Job, threads: int, shortlist: bool) -> list[dict[str, Any]]:
    """All of them together: what is best in float32 need not be in int8, which loses when threads share a sentence.

    A lone sentence cannot be shared out, but one thread may be quicker than several.
    """
    alone = job.batch == 1
    pairs = [(1, threads), (1, 1)] if alone else [(1, threads), (threads, 1)]
    more = {"use_vmap": True} if shortlist else {}
    return [
        {"compute_type": compute, "inter_threads": inter, "intra_threads": intra, "batch": batch} | more
        for compute in ("float32", "int8")
        for inter, intra in dict.fromkeys(pairs)
        for batch in ((1,) if alone else BATCHES)
    ]
