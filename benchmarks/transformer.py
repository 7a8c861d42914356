"""A Transformer of one size, side by side: Regard, Hugging Face, OpenNMT-py and CTranslate2.

    python benchmarks/transformer.py --data DIR

DIR holds train.en, train.de, test_2016_flickr.en and so on, plain or .gz. The peers are installed into environments of
their own below the work folder. All sides see the same text in the same 8,000 pieces. Hugging Face and CTranslate2
translate with Regard's weights, at the best of several settings; OpenNMT-py cannot read them and is only trained. The
sides take turns, and each result is the median of the repeats. Every run's figures go to a JSON file, tables and a
picture to docs/performance-tables.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.benchmark import Plan, measure
from benchmarks.ctranslate2_side import CTranslate2
from benchmarks.huggingface_side import HuggingFace
from benchmarks.opennmt import OpenNmt
from benchmarks.regard_side import Regard
from benchmarks.side import BEAM, FIRST, GREEDY, BatchSize, lone

LONE_SENTENCES = 100

PLAN = Plan(
    name="transformer",
    about=__doc__,
    makers={
        "regard": lambda options, size: Regard("transformer", size),
        "train-float32": lambda options, size: Regard("transformer", size, translates=False, precision="float32"),
        "torch": lambda options, size: Regard("transformer", size, "engine=torch"),
        "float32": lambda options, size: Regard("transformer", size, "int8=false"),
        "int8": lambda options, size: Regard("transformer", size, "int8"),
        "shortlist-int8": lambda options, size: Regard("transformer", size, "shortlist", "int8"),
        "huggingface": lambda options, size: HuggingFace(
            options.work / "huggingface-environment", size, options.torch_index
        ),
        "huggingface-bfloat16": lambda options, size: HuggingFace(
            options.work / "huggingface-environment", size, options.torch_index, precision="bfloat16"
        ),
        "opennmt": lambda options, size: OpenNmt(
            "transformer", options.work / "opennmt-environment", size, options.torch_index, ()
        ),
        "ctranslate2": lambda options, size: CTranslate2(options.work / "ctranslate2-environment", size, False),
        "vmap": lambda options, size: CTranslate2(options.work / "ctranslate2-environment", size, True),
    },
    batches=(BatchSize("4,096 tokens", None, 4096, 2),),
    jobs=(GREEDY, BEAM, lone(1, LONE_SENTENCES), lone(5, LONE_SENTENCES), FIRST),
    minutes_per_run=0.4,
    translation_epochs=3,
)


if __name__ == "__main__":
    measure(PLAN, sys.argv[1:])
