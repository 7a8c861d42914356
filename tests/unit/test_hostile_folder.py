"""Model folders that somebody made to do harm: refused in one line, at once and at no cost."""

import json
import os
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch

import regard
from regard.cli import main
from regard.config.classification import ClassifierRecipe
from regard.config.recipes import check_as, check_recipe
from regard.config.settings import TextSettings
from regard.data.images.image_set import read_idx, read_image
from regard.data.text.expressions import is_tame
from regard.data.text.foreign import ForeignTokenizer, read_tokenizer_file
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError, ModelFolderError, RegardError, printable
from regard.evaluation.alignment import parse_links
from regard.inference.classifier import Classifier
from regard.inference.folder import write_folder
from regard.inference.translator import Translator
from regard.models import build_model
from regard.models.image_classifier import Network
from regard.storage.weights import model_tensors

SETTINGS = TextSettings(tokenizer="word", min_frequency=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = {"kind": "transformer", "hidden_size": 8, "heads": 2, "feedforward_size": 8, "tie_embeddings": "none"}
    recipe = check_recipe({"model": model, "training": {"updates": 1}}, "test")
    words = Tokenizer.train(["a b c"], SETTINGS)
    write_folder(
        tmp_path / "model",
        recipe=recipe,
        source_tokenizer=words,
        target_tokenizer=words,
        weights=model_tensors(build_model(recipe.model, words.size, words.size)),
        metrics={"updates": 1},
        card="",
    )
    return tmp_path / "model"


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    recipe = check_as(ClassifierRecipe, {"model": {"kind": "resnet", "channels": [4]}, "training": {"updates": 1}}, "")
    Classifier(Network(recipe.model, (3, 8, 8), 2), recipe, (3, 8, 8), ("cat", "dog")).save(tmp_path / "model")
    return tmp_path / "model"


def change(path: Path, *keys: str, value: Any) -> None:
    table = json.loads(path.read_text("utf-8"))
    inner = table
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(table), "utf-8")


def test_a_huge_model_is_refused_before_it_is_built(folder: Path) -> None:
    change(folder / "config.json", "model", "hidden_size", value=9000)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(ModelFolderError, match="the model needs"):
        Translator.load(folder).translate("a")
    assert time.monotonic() - started < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    for size in (2**25, 10**30, "9" * 100):
        change(folder / "config.json", "model", "feedforward_size", value=size)
        with pytest.raises(ModelFolderError, match="larger than any"):
            regard.load(folder)


def test_a_kind_of_model_that_is_no_name_is_refused(folder: Path) -> None:
    for value in ({}, [], None, 1, "x" * 500_000):
        change(folder / "config.json", "model", "kind", value=value)
        with pytest.raises(ModelFolderError, match=r"model\.kind"):
            regard.load(folder)


def test_json_is_bounded_in_size_and_depth(folder: Path) -> None:
    file = folder / "config.json"
    good = file.read_bytes()
    bad = [b"[" * 100_000, b'{"a":' * 50 + b"1" + b"}" * 50, good.replace(b"1", b"NaN", 1), b" " * (1 << 21), b"\xff"]
    bad += [b"[" + b"[]," * 2_100_000 + b"1]", good.replace(b'"transformer"', b'"\\ud800"')]
    for content in bad:
        file.write_bytes(content)
        with pytest.raises(ModelFolderError):
            regard.load(folder)
    file.write_bytes(good)
    regard.load(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "source.tokenizer.json", "model.safetensors", "metrics.json", "shortlist.safetensors"]
)
def test_a_pipe_or_a_device_is_not_read(folder: Path, name: str) -> None:
    if name == "source.tokenizer.json":
        os.rename(folder / "tokenizer.json", folder / "target.tokenizer.json")
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)):
        (folder / name).unlink(missing_ok=True)
        make(folder / name)
        with pytest.raises(ModelFolderError, match="not a regular file"):
            regard.load(folder)
        (folder / name).rmdir() if (folder / name).is_dir() else (folder / name).unlink()


def test_tensors_of_another_type_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    name = min(tensors)
    safetensors.torch.save_file({**tensors, name: tensors[name].long()}, path)
    with pytest.raises(ModelFolderError, match=r"type torch\.int64"):
        Translator.load(folder).translate("a")
    path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelFolderError, match="header of"):
        regard.load(folder)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("input", [3, 8], "no shape"),
        ("input", [3, 10**9, 8], "no shape"),
        ("input", [True, 8, 8], "no shape"),
        ("input", None, "no shape"),
        ("classes", ["a", "a"], "twice"),
        ("classes", "ab", "no list"),
        ("classes", ["a", 1], "no list"),
        ("classes", ["a"], "the model needs"),
    ],
)
def test_the_fields_of_a_classifier_are_checked(classifier: Path, key: str, value: object, message: str) -> None:
    change(classifier / "config.json", "regard", key, value=value)
    with pytest.raises(ModelFolderError, match=message):
        regard.load(classifier)


def test_metrics_that_others_rely_on_have_their_types(folder: Path) -> None:
    for value in ({"data": None}, {"data": [1]}, {"data": {"train": 1}}, {"updates": "x"}, {"valid": 3}):
        (folder / "metrics.json").write_text(json.dumps(value))
        with pytest.raises(ModelFolderError, match=r"metrics\.json: is damaged"):
            regard.load(folder)


# --- tokenizers ---------------------------------------------------------------------------------------------------

PADDING = {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
GROWING = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 60
RUNAWAY = {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("padding", PADDING),
        ("truncation", {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}),
        ("normalizer", {"type": "Sequence", "normalizers": GROWING}),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "/////wAAAAA="}),
        ("normalizer", {"type": "Replace", "pattern": {"Regex": "(a|a)*$"}, "content": ""}),
        ("pre_tokenizer", RUNAWAY),
        ("post_processor", {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}),
    ],
)
def test_parts_that_may_run_away_are_refused(tmp_path: Path, foreign: bool, key: str, value: object) -> None:
    if foreign:
        own = {"version": "1.0", "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "a": 1}}}
        (tmp_path / "words.json").write_text(json.dumps(own))
        tokenizer = read_tokenizer_file(tmp_path / "words.json")
        assert isinstance(tokenizer, ForeignTokenizer)
    else:
        tokenizer = Tokenizer.train(["a b"], SETTINGS)
    Tokenizer.from_json(tokenizer.to_json())
    changed = {**json.loads(tokenizer.to_json()), key: value}
    with pytest.raises(ModelFolderError, match="does not read"):
        Tokenizer.from_json(json.dumps(changed))


def test_a_panic_of_the_library_is_an_error_of_ours(tmp_path: Path) -> None:
    # a rule whose replacement lies beyond the end
    charsmap = "CAAAAAD9AAAA/f//YQA="
    own = {
        "version": "1.0",
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap},
        "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "a": 1}},
    }
    (tmp_path / "words.json").write_text(json.dumps(own))
    for text in ("a", "\x00\x01", "\ufdfa", "bcd"):
        with suppress(RegardError):
            read_tokenizer_file(tmp_path / "words.json").encode(text)


def test_expressions_of_known_tokenizers_are_tame_and_others_not() -> None:
    gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    llama = r"(?i:'s|'t|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
    for good in (gpt2, llama, " {2,}", r"\s+", r" ?[^(\s|[.,!?…。，、।۔،])]+", "[[:punct:]]", "(?<=x)y"):
        assert is_tame(good), good
    bad = [
        "(a+)+b",
        "(a|a)*b",
        "(a*)*",
        "a*a*a*b",
        "(?:a?){50}a",
        "a?" * 30,
        r"(a)\1+",
        "(?<n>a)",
        "(a",
        "a)",
        "a{1000}",
    ]
    for expression in [*bad, "((a+))+", "(a?b?)*", "a**", "*a", "(?:(?:a|b)c)+x", r"\g<0>", "(a{2,5}){2,5}"]:
        assert not is_tame(expression), expression


# --- other files, and what is printed -----------------------------------------------------------------------------


def test_images_and_links_are_bounded(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(DataError, match="not a regular file"):
        read_image(tmp_path / "pipe.png")
    (tmp_path / "idx").write_bytes(bytes((0, 0, 8, 3)) + (1000).to_bytes(4) * 3)  # claims a gigabyte
    with pytest.raises(DataError, match="but it has only 0"):
        read_idx(tmp_path / "idx", 3)
    with pytest.raises(DataError, match="is not a link"):
        parse_links("9" * 5000 + "-1")


def test_control_characters_of_a_folder_are_shown_not_obeyed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\x1b[2J\x9b\u202eé\n") == "a\\x1b[2J\\x9b\\u202eé\\n"
    change(folder / "config.json", "description", value="evil \x1b]0;owned\x07 \u202e")
    assert main(["info", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "\\x1b]0;owned" in shown
    assert not any(character in shown for character in "\x1b\x07\u202e")
    change(folder / "config.json", "model", "kind", value="\x1b[2J" + "x" * 10_000)
    assert main(["info", str(folder)]) == 2
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert len(shown) < 2100


def test_a_shortlist_lists_only_pieces_that_there_are(folder: Path) -> None:
    from regard.decoding.shortlist import Shortlist, vocabulary_digest

    words = Tokenizer.load(folder / "tokenizer.json")
    digest, rows = vocabulary_digest(words, words), np.zeros((words.size, 2), np.int32)
    for common, likely in (
        (np.array([0, 1, 2, 3, 99]), rows),
        (np.array([0, 1, 2]), rows),
        (np.array([0, 1, 2, 3]), rows - 1),
        (np.array([0.0, 1, 2, 3]), rows),
        (np.array([0, 1, 2, 3]), rows.astype(np.int64)),
        (np.array([[0, 1, 2, 3]]), rows),
    ):
        Shortlist(common, likely, digest).save(folder)
        with pytest.raises(ModelFolderError, match="is damaged"):
            regard.load(folder)
