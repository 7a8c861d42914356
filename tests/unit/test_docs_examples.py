"""The pages on extending Regard: their code is that of the example files, and those run."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import regard
from regard.data.toy import toy_corpus
from regard.errors import ModelFolderError

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = {"extend-score.md": "own_score", "extend-model.md": "own_model"}


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shorten(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful of validation sentences instead of a thousand."""
    pairs = [(pair.source, pair.target) for pair in toy_corpus("dates").generate("valid", 4)]
    plain = regard.train

    def train(*args, **options):
        return plain(*args, **{**options, "train": "toy:dates:en-iso:300", "valid": pairs, "progress": False})

    monkeypatch.setattr(module.regard, "train", train, raising=False)


def unindented(code: str) -> str:
    return "\n".join(line.strip() for line in code.splitlines())


@pytest.mark.parametrize("page", EXAMPLES)
def test_code_on_the_page_is_code_of_the_example(page: str):
    text = (DOCS / page).read_text("utf-8")
    source = (DOCS / "examples" / f"{EXAMPLES[page]}.py").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:  # a page may show a part of a function without its indentation
        assert unindented(block) in unindented(source)
    assert f"](examples/{EXAMPLES[page]}.py)" in text


def test_own_score_trains_and_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    example = load_example("own_score")
    shorten(example, monkeypatch)
    translator = example.main(tmp_path / "model", updates=2)
    assert isinstance(translator.model.attend.score, example.Distance)
    translation = translator.translate("March 5, 1987")
    assert translation.attention is not None
    assert translation.attention["cross"].shape[-1] == len(translation.source_tokens)


def test_own_model_trains_and_loads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    example = load_example("own_model")
    shorten(example, monkeypatch)
    translator = example.main(tmp_path / "model", updates=2)
    assert isinstance(translator.model, example.Convolution)
    assert len(translator.translate(["March 5, 1987", "", "1 May 2001"], beam=3)) == 3
    with pytest.raises(ModelFolderError, match=r"holds a model of the class own_model\.Convolution"):
        regard.load(tmp_path / "model")


def test_normalisation_tells_its_three_stories(capsys: pytest.CaptureFixture[str]):
    example = load_example("normalisation")
    found = example.main()
    page = (DOCS / "normalisation.md").read_text("utf-8")
    printed = capsys.readouterr().out
    blocks = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 3
    for label in ("batch normalisation", "layer normalisation", "a batch of one sentence"):
        line = next(line for line in printed.splitlines() if label in line)
        assert line in blocks[0].splitlines()
    for line in (line for block in blocks[1:] for line in block.splitlines()):
        assert line.split()[0] in printed  # the rows are those of the script; the last digits are the machine's
    moved = example.batch_and_layer()
    assert moved["batch"] > 1
    assert moved["layer"] == 0
    deep = {wiring: by_depth[32] for wiring, by_depth in found.items()}
    assert deep["plain"][0] < 1e-3 < 0.5 < deep["post"][0]  # sizes
    assert abs(deep["norm alone"][1]) < 0.05  # directions
    assert deep["post"][1] < 0.05 < 0.15 < deep["pre"][1]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES.values())
def test_example_learns_dates(name: str, tmp_path: Path):
    translator = load_example(name).main(tmp_path / "model")
    pairs = list(toy_corpus("dates").generate("test", 100))
    translations = translator.translate([pair.source for pair in pairs])
    right = sum(found.text == pair.target for found, pair in zip(translations, pairs, strict=True))
    assert right >= 90
