"""Models come in from and go out to other tools, and say there what they say here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from interop_help import LENGTH, LINES, PAIRS, marian_files, memorise, sentencepiece_model, transformer_folder
from training_help import recipe

import regard
from regard.cli import main
from regard.config.vocabulary import BOS, EOS, PAD
from regard.data.text.batches import collate
from regard.inference.folder import read_folder
from regard.inference.translator import Translator
from regard.models.contract import Batch
from regard.storage.weights import model_tensors

pytestmark = pytest.mark.filterwarnings("ignore")  # of other tools

OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {"joint": True},
    "two vocabularies": {
        "joint": False,
        "tie_embeddings": "target",
        "activation": "gelu",
        "attention_bias": True,
        "start_token": "pad",
        "scale_embeddings": False,
    },
    "nothing tied": {"joint": False, "tie_embeddings": "none", "positions": "halves", "activation": "silu"},
    "pre": {"joint": True, "norm": "pre"},
}


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Translator]]:
    """A Transformer of each kind of options, with its folder."""
    made = {}
    for name, options in OPTIONS.items():
        folder = tmp_path_factory.mktemp("models") / name.replace(" ", "-")
        made[name] = folder, transformer_folder(folder, **options)
    return made


def said(translator: Translator, lines: list[str], beam: int) -> list[list[int]]:
    """The ids of the translations without EOS; without a length penalty all tools rank alike."""
    found = translator.translate(lines, search={"beam": beam, "length_penalty": 0, **LENGTH})
    ids = [[token.id for token in each.tokens if token.id != EOS] for each in found]
    assert len(set(map(tuple, ids))) > 4  # a comparison that can fail
    return ids


def assert_alike(theirs: Sequence[Sequence[Any]], ours: Sequence[Sequence[Any]], beam: int) -> None:
    """Greedily the same translations.

    Beams that were cut at 25 pieces are ranked by each tool in its own way and left out; of the others most must be the
    same, but a tool that searches on after as many ends as there are beams may find a better one.
    """
    places = [place for place in range(len(ours)) if beam == 1 or max(len(ours[place]), len(theirs[place])) < 25]
    same = [list(theirs[place]) == list(ours[place]) for place in places]
    assert len(same) > 1
    assert all(same) if beam == 1 else 2 * sum(same) > len(same)


def gold(translator: Translator) -> Batch:
    """Three pairs as tensors."""
    return collate(
        [translator.source_tokenizer.encode(source) for source, _ in PAIRS[20:23]],
        [translator.target_tokenizer.encode(target) for _, target in PAIRS[20:23]],
    )


@torch.no_grad()
def logits(translator: Translator, batch: Batch) -> torch.Tensor:
    return translator.model.project(translator.model.forward(batch).hidden)


def generated(model: Any, batch: dict[str, torch.Tensor], beam: int, ends: set[int]) -> list[list[int]]:
    """The ids that `transformers` generates."""
    rows = model.generate(
        **batch, num_beams=beam, do_sample=False, length_penalty=0.0, max_new_tokens=25, forced_eos_token_id=None
    )
    return [[number for number in row[1:] if number not in ends] for row in rows.tolist()]


# --- out ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper", "two vocabularies", "nothing tied"])
def test_hugging_face_loads_the_same_model(
    name: str, translators: dict[str, tuple[Path, Translator]], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra dev")
    folder, translator = translators[name]
    assert main(["export", str(folder), "--to", "huggingface", "--out", str(tmp_path / "hf")]) == 0
    model = transformers.MarianMTModel.from_pretrained(tmp_path / "hf").eval()
    batch = gold(translator)
    start = batch.target_in.masked_fill(batch.target_in == BOS, PAD) if "two" in name else batch.target_in
    with torch.no_grad():
        theirs = model(input_ids=batch.source, attention_mask=batch.source_mask.long(), decoder_input_ids=start).logits
    torch.testing.assert_close(
        theirs[batch.target_mask], logits(translator, batch)[batch.target_mask], atol=1e-4, rtol=1e-4
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    encoded = tokenizer(LINES, return_tensors="pt", padding=True, return_token_type_ids=False)
    ours = translator.source_tokenizer.encode_many(LINES)
    assert [row[: len(line)] for row, line in zip(encoded["input_ids"].tolist(), ours, strict=True)] == ours
    for beam in (1, 4):
        assert_alike(generated(model, encoded, beam, {PAD, EOS}), said(translator, LINES, beam), beam)
    target = tokenizer
    if not OPTIONS[name]["joint"]:
        target = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf" / "target")
    ids = translator.target_tokenizer.encode(PAIRS[0][1])
    assert target.decode(ids, skip_special_tokens=True) == PAIRS[0][1]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.processor("ctranslate2")
def test_ctranslate2_translates_the_same(
    name: str, translators: dict[str, tuple[Path, Translator]], tmp_path: Path
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="needs the extra interop")
    folder, translator = translators[name]
    assert main(["export", str(folder), "--to", "ctranslate2", "--out", str(tmp_path / "ct2")]) == 0
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), inter_threads=1, intra_threads=1)
    source, target = translator.source_tokenizer, translator.target_tokenizer
    numbers = {target.piece(number): number for number in range(target.size)}
    lines = [[source.piece(number) for number in source.encode(line)] for line in LINES]
    for beam in (1, 4):
        found = engine.translate_batch(
            lines, beam_size=beam, length_penalty=0, max_decoding_length=25, min_decoding_length=0
        )
        ids = [[numbers[piece] for piece in each.hypotheses[0]] for each in found]
        assert_alike(ids, said(translator, LINES, beam), beam)


@pytest.mark.parametrize("name", [*OPTIONS, "recurrent"])
def test_the_card_of_an_onnx_export_translates(
    name: str,
    translators: dict[str, tuple[Path, Translator]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "recurrent":
        folder = tmp_path / "recurrent"
        translator = regard.train(recipe("luong", updates=1), train=PAIRS[:20], out=folder, progress=False)
    else:
        folder, translator = translators[name]
    out = tmp_path / "onnx"
    assert main(["export", str(folder), "--to", "onnx", "--out", str(out)]) == 0
    program = (out / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(out)
    capsys.readouterr()
    exec(program.replace("…", LINES[0]), {})
    greedy = translator.translate(
        LINES[0], beam=1, search={"replace_unknown": False, "max_length_ratio": 0.01, "max_length_extra": 99}
    )
    assert capsys.readouterr().out.split() == greedy.text.split()


def test_word_vectors_go_out_and_come_in(translators: dict[str, tuple[Path, Translator]], tmp_path: Path) -> None:
    from regard.data.text.vectors import read_vectors

    folder, translator = translators["two vocabularies"]
    for side in ("source", "target"):
        file = tmp_path / f"{side}.txt"
        assert main(["export", str(folder), "--to", "word2vec", "--side", side, "--out", str(file)]) == 0
        tokenizer = translator.source_tokenizer if side == "source" else translator.target_tokenizer
        rows, found = read_vectors(file, tokenizer, 32)
        assert found > 5
        matrix = translator.model.get_parameter(f"embeddings.{side}.weight").detach().numpy()
        for piece, vector in rows.items():
            np.testing.assert_allclose(vector, matrix[piece], rtol=1e-6)


def test_what_cannot_go_out_is_one_line(
    translators: dict[str, tuple[Path, Translator]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    regard.train(recipe("bahdanau", updates=1), train=PAIRS[:20], out=tmp_path / "recurrent", progress=False)
    paper = translators["paper"][0]
    cases = [
        (tmp_path / "recurrent", "huggingface", tmp_path / "x", "huggingface supports Transformers only"),
        (tmp_path / "recurrent", "ctranslate2", tmp_path / "x", "ctranslate2 supports Transformers only"),
        (translators["pre"][0], "huggingface", tmp_path / "x", "export it to ctranslate2 or onnx"),
        (paper, "onxx", tmp_path / "x", "did you mean 'onnx'"),
        (paper, "huggingface", tmp_path / "recurrent", "already exists"),
        (tmp_path / "nowhere", "onnx", tmp_path / "x", "there is no such model folder"),
    ]
    before = sorted(path.name for path in tmp_path.iterdir())
    capsys.readouterr()
    for folder, target_format, out, reason in cases:
        assert main(["export", str(folder), "--to", target_format, "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert reason in error
        assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# --- in -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """A Marian model that `transformers` made, with its tokenizer."""
    transformers = pytest.importorskip("transformers", reason="needs the extra dev")
    folder = tmp_path_factory.mktemp("marian") / "opus-mt-en-de"
    vocabulary = marian_files(folder)
    size = len(vocabulary)
    config = transformers.MarianConfig(
        vocab_size=size,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        activation_function="swish",
        scale_embedding=True,
        init_std=0.1,
        max_position_embeddings=128,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config)
    files = (str(folder / name) for name in ("source.spm", "target.spm", "vocab.json"))
    tokenizer = transformers.MarianTokenizer(*files)
    batch = tokenizer(LINES, text_target=[target for _, target in PAIRS[:8]], return_tensors="pt", padding=True)
    real = batch["labels"] != size - 1
    model.final_logits_bias.normal_(std=0.3)
    memorise(model, lambda: model(**batch).logits[real], batch["labels"][real])
    model.eval().save_pretrained(folder)
    return folder, model, tokenizer


def test_marian_comes_in_whole(marian: tuple[Path, Any, Any], tmp_path: Path) -> None:
    folder, model, tokenizer = marian
    assert main(["import", "marian", str(folder), "--out", str(tmp_path / "model")]) == 0
    translator = regard.load(tmp_path / "model")
    source, target = translator.source_tokenizer, translator.target_tokenizer
    lines = [*LINES, ">>de<< The cat", "odd: 日本 ½ ﬁ e\u0301"]
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    for line, ids, mask in zip(lines, batch["input_ids"], batch["attention_mask"], strict=True):
        theirs = tokenizer.convert_ids_to_tokens(ids[mask.bool()])
        assert [source.piece(number) for number in source.encode(line)] == theirs
    assert any("<unk>" in tokenizer.convert_ids_to_tokens(ids) for ids in batch["input_ids"][:8])

    names = [target.piece(number) for number in range(target.size)]
    numbers = tokenizer.get_vocab()
    kept = [place for place, name in enumerate(names) if name in numbers]
    assert [names[place] for place in range(target.size) if place not in kept] == ["<s>"]
    wanted = tokenizer(lines[:3], text_target=[each for _, each in PAIRS[20:23]], return_tensors="pt", padding=True)
    with torch.no_grad():
        theirs = model(**wanted).logits[:, :, [numbers[names[place]] for place in kept]]
    pairs = collate(source.encode_many(lines[:3]), target.encode_many([each for _, each in PAIRS[20:23]]))
    ours = logits(translator, pairs)
    torch.testing.assert_close(theirs[pairs.target_mask], ours[:, :, kept][pairs.target_mask], atol=1e-4, rtol=1e-4)
    assert (ours.softmax(-1)[:, :, BOS] == 0).all()

    for beam in (1, 4):
        theirs = generated(model, batch, beam, {0, numbers["<pad>"]})
        pieces = [[names[number] for number in ids] for ids in said(translator, lines, beam)]
        assert_alike([tokenizer.convert_ids_to_tokens(ids) for ids in theirs], pieces, beam)
    ids = target.encode("Die Katze schläft nicht.")
    assert target.decode(ids) == "Die Katze schläft nicht."
    attention = translator.translate(LINES[0]).attention
    assert attention is not None
    assert attention["cross"].shape[:2] == (2, 4)


def test_marian_goes_out_again_as_it_came(marian: tuple[Path, Any, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra dev")
    folder, model, tokenizer = marian
    assert main(["import", "marian", str(folder), "--out", str(tmp_path / "in")]) == 0
    assert main(["export", str(tmp_path / "in"), "--to", "huggingface", "--out", str(tmp_path / "out")]) == 0
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()
    again = transformers.MarianMTModel.from_pretrained(tmp_path / "out").eval()
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")

    def translated(model: Any, tokenizer: Any) -> list[str]:
        batch = tokenizer(LINES, return_tensors="pt", padding=True)
        ids = model.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=20, forced_eos_token_id=None)
        texts: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True)
        return texts

    assert translated(again, words) == translated(model, tokenizer)
    assert main(["import", "marian", str(tmp_path / "out"), "--out", str(tmp_path / "again")]) == 0
    first, second = read_folder(tmp_path / "in"), read_folder(tmp_path / "again")
    assert first.source_tokenizer == second.source_tokenizer
    tensors = model_tensors(second.model())
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in model_tensors(first.model()).items())


# --- tokenizers in training ---------------------------------------------------------------------------------------


def test_training_uses_a_tokenizer_from_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "joint.model").write_bytes(sentencepiece_model([line for pair in PAIRS for line in pair], 150))
    table = recipe("transformer", {"tie_embeddings": "all"}, joint=True, updates=2).model_dump(mode="json")
    table["text"]["source_tokenizer"] = str(tmp_path / "joint.model")
    from regard.config.recipes import check_recipe

    regard.train(check_recipe(table, "test"), train=PAIRS[:40], valid=PAIRS[:4], out=tmp_path / "m", progress=False)
    (tmp_path / "joint.model").unlink()
    translator = regard.load(tmp_path / "m")
    assert translator.source_tokenizer == translator.target_tokenizer
    ids = translator.target_tokenizer.encode(PAIRS[0][1])
    assert translator.target_tokenizer.decode(ids) == PAIRS[0][1]
    assert isinstance(translator.translate(LINES[0]).text, str)
    with pytest.raises(regard.errors.DataError, match="cannot be read"):
        regard.train(check_recipe(table, "test"), train=PAIRS[:40], out=tmp_path / "x", progress=False)
    assert not (tmp_path / "x").exists()
