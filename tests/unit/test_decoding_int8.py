"""int8 decoding: close to float32, quantised once, refused where unsupported."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.cli.app import main
from regard.config.recipes import check_recipe
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.engines.choice import Engines
from regard.errors import ConfigError
from regard.inference.translator import Translator
from regard.models import build_model
from regard.nn.linear import INT8_ENGINES, Int8Weights

pytestmark = [
    pytest.mark.skipif(
        torch.backends.quantized.engine not in INT8_ENGINES,
        reason="torch has no int8 kernels for this processor",
    ),
    pytest.mark.processor("int8"),
]

LINES = ["the small house stands here", "a green tree", "the cat saw a small dog and a tree", "here is the house"]
SIZES = {
    "transformer": {"hidden_size": 256, "heads": 4, "feedforward_size": 512, "encoder_layers": 1, "decoder_layers": 1},
    "bahdanau": {"hidden_size": 256, "embedding_size": 256, "encoder_size": 128, "attention_size": 256},
    "luong": {"hidden_size": 256, "embedding_size": 256, "layers": 1},
}


def translator_of(kind: str) -> Translator:
    recipe = check_recipe(
        {
            "model": {"kind": kind, **SIZES[kind]},
            "text": {"vocabulary_size": 300, "min_frequency": 1, "joint": True},
            "training": {"updates": 1},
            "search": {"max_length_extra": 6, "max_length_ratio": 1.0, "beam": 4},
        },
        "test",
    )
    tokenizer = Tokenizer.train(LINES * 3, recipe.text)
    torch.manual_seed(5)
    return Translator(build_model(recipe.model, tokenizer.size, tokenizer.size), recipe, tokenizer, tokenizer)


def kept_weights(translator: Translator) -> dict[Any, Any]:
    def missing() -> Int8Weights:
        raise AssertionError("there are none")

    return dict(translator._engines.made.get("int8", missing)._packed)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("beam", [1, 4])
def test_given_words_are_about_as_likely(kind: str, beam: int):
    translator = translator_of(kind)
    given = LINES[::-1]

    def likelihoods(**search: object) -> list[float]:
        found = translator.translate(LINES, search={"beam": beam, **search}, prefix=given, attention=False)
        forced = [len(translator.target_tokenizer.encode(prefix)) - 1 for prefix in given]
        return [
            number for each, count in zip(found, forced, strict=True) for number in each.token_log_probabilities[:count]
        ]

    exact, rounded = likelihoods(), likelihoods(int8=True)
    assert kept_weights(translator)
    assert exact != rounded
    assert exact == pytest.approx(rounded, rel=0.1)
    assert likelihoods() == exact  # nothing of it stays


def test_weights_are_made_once():
    translator = translator_of("transformer")
    translator.translate(LINES, search={"int8": True})
    kept = kept_weights(translator)
    assert kept
    translator.translate(LINES[:2], search={"int8": True})
    assert kept_weights(translator) == kept


def test_threads_pack_a_weight_once(monkeypatch: pytest.MonkeyPatch):
    translator = translator_of("transformer")
    packed = []
    original = Int8Weights._pack

    def pack(self: Int8Weights, weight: torch.Tensor, bias: torch.Tensor | None, rows: int) -> Any:
        packed.append(weight.data_ptr())
        time.sleep(0.01)
        return original(self, weight, bias, rows)

    monkeypatch.setattr(Int8Weights, "_pack", pack)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: translator.translate(LINES, search={"int8": True, "beam": 1}), range(4)))
    assert len(packed) == len(set(packed)) > 0


def test_the_command_has_it(tmp_path: Path):
    recipe = translator_of("luong").recipe
    regard.train(recipe, train="toy:copy:60", valid="toy:copy:5", out=tmp_path / "model", progress=False, threads=1)
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", "utf-8")
    command = ["translate", str(tmp_path / "model"), "-i", str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt")]
    assert main([*command, "--int8"]) == 0
    found = (tmp_path / "out.txt").read_text("utf-8").splitlines()
    loaded = regard.load(tmp_path / "model")
    expected = loaded.translate(LINES, search={"int8": True}, attention=False)
    assert found == [each.text for each in expected]


def test_another_device_is_refused():
    translator = translator_of("luong")
    elsewhere = Engines(replace(translator._model, device=torch.device("meta")))
    with pytest.raises(ConfigError, match="int8 = true: runs on the CPU, not on meta"):
        elsewhere.prepare(translator.search_settings({"int8": True}))
