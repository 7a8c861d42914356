"""`regard info` tells the truth about the path that a model takes: the fast kernels are counted while it runs."""

import pytest
import torch

from regard.config.models import (
    BahdanauSettings,
    GnmtSettings,
    LuongSettings,
    ModelConfig,
    Seq2SeqSettings,
    TransformerSettings,
)
from regard.models import build_model
from regard.models.contract import Batch
from regard.nn.attention.multihead import MultiHead
from regard.nn.rnn_kernels import GruSequence, LstmSequence

SIZES = {"embedding_size": 8, "hidden_size": 8}
MODELS: list[ModelConfig] = [
    Seq2SeqSettings(**SIZES),
    Seq2SeqSettings(**SIZES, cell="rnn"),
    Seq2SeqSettings(**SIZES, cell="gru", layers=1, context="every_step"),
    BahdanauSettings(**SIZES),
    BahdanauSettings(**SIZES, layer_norm=True),
    BahdanauSettings(**SIZES, encoder_reset="before", maxout_state="previous"),
    LuongSettings(**SIZES),
    LuongSettings(**SIZES, input_feeding=False),
    LuongSettings(**SIZES, input_feeding=False, query="previous"),
    LuongSettings(**SIZES, input_feeding=False, query="previous", context_to="output"),
    LuongSettings(**SIZES, input_feeding=True, query="previous", context_to="output"),
    GnmtSettings(**SIZES, layers=2),
    GnmtSettings(**SIZES, layers=2, context_to="all"),
    TransformerSettings(hidden_size=8, encoder_layers=1, decoder_layers=1),
]


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_the_named_path_is_the_one_taken(settings: ModelConfig, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def counting(real):
        return lambda *inputs, **options: calls.append(1) or real(*inputs, **options)

    for kernel in (GruSequence, LstmSequence):
        monkeypatch.setattr(kernel, "apply", counting(kernel.apply))
    monkeypatch.setattr(MultiHead, "fast", counting(MultiHead.fast))
    ids = torch.tensor([[5, 6, 3]])
    model = build_model(settings, 9, 9)
    memory = model.encode(ids, ids > 0)
    encoder_calls = len(calls)
    model(Batch(ids, ids > 0, ids, ids, ids > 0))
    decoder_calls = len(calls) - 2 * encoder_calls  # forward encodes as well
    named = model.paths()
    assert named is not None
    assert named.encoder.startswith("fast") == (encoder_calls > 0)
    assert named.decoder.startswith("fast") == (decoder_calls > 0)
    calls.clear()
    model.step(torch.tensor([2]), model.start(memory), memory)
    assert named.translating.startswith("readable")
    assert not calls
