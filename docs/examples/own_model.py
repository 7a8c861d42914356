"""A model of your own: a convolution reads the source, a GRU with attention writes the target.

python docs/examples/own_model.py models/convolution
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import regard
from regard.inference.folder import read_folder
from regard.models.contract import Model, State, Step
from regard.nn.attention import Attend, General
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.testing import check_contract


class Convolution(Model):
    """Every source token sees its two neighbours on each side, and nothing else."""

    def __init__(self, source_vocabulary: int, target_vocabulary: int, size: int = 64) -> None:
        super().__init__()
        self.vocabulary_size = target_vocabulary
        self.source = nn.Embedding(source_vocabulary, size)
        self.target = nn.Embedding(target_vocabulary, size)
        self.neighbours = nn.Conv1d(size, size, kernel_size=5, padding=2)
        self.attend = Attend(General(size, size))
        self.cell = nn.GRUCell(2 * size, size)
        self.output = nn.Linear(2 * size, target_vocabulary)

    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> Memory:
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        real = mask.unsqueeze(-1)  # (B, S, 1)
        words = self.source(source) * real  # padding must not be a neighbour
        values = torch.tanh(words + self.neighbours(words.transpose(1, 2)).transpose(1, 2)) * real  # (B, S, D)
        lengths = mask.sum(1)
        mean = values.sum(1) / lengths.unsqueeze(1)
        return Memory(mask, lengths, (mean,), self.attend.prepare(values), values)

    def start(self, memory: Memory) -> State:
        return State((memory.summary[0],))

    def step(
        self,
        token: Tensor,
        state: State,
        memory: Memory,
        *,
        attention: bool = False,
        trace: bool = False,
        intervention: Intervention | None = None,
    ) -> Step:
        before = state.tensors[0]  # (N, D)
        looked = self.attend.at_step(before, memory, state.position, trace=trace, intervention=intervention)
        context, weights, traces = looked
        after = self.cell(torch.cat([self.target(token), context], -1), before)
        recorded = {"cross": weights[:, None, None, None]} if attention else None  # one layer, one head, one step
        return Step(torch.cat([after, context], -1), state.advance([after]), recorded, traces)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        logits = self.output(hidden)
        return logits if columns is None else logits[..., columns]


OVERRIDES = [
    "text.tokenizer=character",
    "training.batch_tokens=1024",
    "training.learning_rate=3e-3",
    "training.warmup=50",
]


def main(out: Path, updates: int = 600) -> regard.Translator:
    check_contract(Convolution(100, 100), source_vocabulary=100)
    regard.train(
        "bahdanau",  # for its settings of text, training and search
        train="toy:dates:en-iso:20000",
        model=Convolution,
        out=out,
        overrides=[*OVERRIDES, f"training.updates={updates}"],
    )
    folder = read_folder(out)
    model = Convolution(folder.source_tokenizer.size, folder.target_tokenizer.size)
    translator = regard.Translator.load(out, model=model)
    print(translator.translate("March 5, 1987"))
    return translator


if __name__ == "__main__":
    main(Path(sys.argv[1]))
