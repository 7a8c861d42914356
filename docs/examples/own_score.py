"""A score function of your own, in a model of Luong's, trained on an embedded corpus.

python docs/examples/own_score.py models/distance
"""

import sys
from pathlib import Path

from torch import Tensor, nn

import regard
from regard.config.models import LuongSettings
from regard.models import Luong
from regard.nn.attention import Score
from regard.testing import check_contract


class Distance(Score):
    """score(q, k) = −|q − W k|² / √d: the nearer, the more alike."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.weight = nn.Linear(key_size, query_size, bias=False)  # W

    def prepare(self, keys: Tensor) -> Tensor:
        return self.weight(keys)  # (B, S, Dq), once per sentence

    def compare(self, asked: Tensor, prepared: Tensor) -> Tensor:
        # |q − k|² = |q|² − 2 qᵀk + |k|²
        products = asked @ prepared.transpose(1, 2)  # (B, T, S)
        queries, keys = asked.square().sum(-1).unsqueeze(2), prepared.square().sum(-1).unsqueeze(1)
        return (2 * products - queries - keys) / asked.size(-1) ** 0.5


SETTINGS = LuongSettings(embedding_size=64, hidden_size=64, layers=1, cell="gru", reverse_source=False)


def make_model(source_vocabulary: int, target_vocabulary: int) -> Luong:
    model = Luong(SETTINGS, source_vocabulary, target_vocabulary)
    model.attend.score = Distance(query_size=64, key_size=64)
    return model


OVERRIDES = [
    "text.tokenizer=character",
    "training.batch_tokens=1024",
    "training.learning_rate=3e-3",
    "training.warmup=50",
]


def main(out: Path, updates: int = 600) -> regard.Translator:
    check_contract(make_model(100, 100), source_vocabulary=100)
    translator = regard.train(
        "luong",
        train="toy:dates:en-iso:20000",
        model=make_model,
        out=out,
        overrides=[*OVERRIDES, f"training.updates={updates}"],
    )
    print(translator.translate("March 5, 1987"))
    return translator


if __name__ == "__main__":
    main(Path(sys.argv[1]))
