"""Recurrent models of one size, side by side: Regard, OpenNMT-py and JoeyNMT.

    python benchmarks/recurrent.py --data DIR

DIR holds train.en, train.de, test_2016_flickr.en and so on, plain or .gz. The peers are installed into environments of
their own below the work folder. All sides see the same text in the same 8,000 pieces; the sides take turns, and each
result is the median of the repeats. Every run's figures go to a JSON file, tables and a
picture to docs/performance-tables.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.benchmark import Plan, measure
from benchmarks.joey import Joey
from benchmarks.opennmt import OpenNmt
from benchmarks.regard_side import Regard
from benchmarks.side import BATCHES, BEAM, FIRST, GREEDY, Job, lone

LONE_SENTENCES = 200

PLAN = Plan(
    name="recurrent",
    about=__doc__,
    makers={
        "luong": lambda options, size: Regard("luong", size, translates=False),
        "bahdanau": lambda options, size: Regard("bahdanau", size),
        "luong-float32": lambda options, size: Regard("luong", size, translates=False, precision="float32"),
        "bahdanau-float32": lambda options, size: Regard("bahdanau", size, translates=False, precision="float32"),
        "torch": lambda options, size: Regard("bahdanau", size, "engine=torch"),
        "float32": lambda options, size: Regard("bahdanau", size, "int8=false"),
        "int8": lambda options, size: Regard("bahdanau", size, "int8"),
        "shortlist-int8": lambda options, size: Regard("bahdanau", size, "shortlist", "int8"),
        "opennmt": lambda options, size: OpenNmt(
            "recurrent", options.work / "opennmt-environment", size, options.torch_index
        ),
        "joeynmt": lambda options, size: Joey(options.work / "joeynmt-environment", size, options.torch_index),
    },
    batches=BATCHES,
    jobs=(
        Job("greedy, batch 32", 1, 32, None),
        Job("beam 5, batch 32", 5, 32, None),
        GREEDY,
        BEAM,
        lone(1, LONE_SENTENCES),
        lone(5, LONE_SENTENCES),
        FIRST,
    ),
    minutes_per_run=1.0,
    translation_epochs=3,
)


if __name__ == "__main__":
    measure(PLAN, sys.argv[1:])
