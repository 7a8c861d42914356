"""The notebook of the docs: valid, without outputs, and every cell runs."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.text.sources import TOY_COUNTS

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
WIDEST = 120


def read_cells() -> list[dict[str, Any]]:
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells: list[dict[str, Any]] = notebook["cells"]
    return cells


def shown(value: object) -> str | bytes:
    """What a notebook shows of a value, the richest form first."""
    for form in ("_repr_html_", "_repr_png_"):
        if (method := getattr(value, form, None)) is not None and (rich := method()) is not None:
            assert isinstance(rich, str | bytes)
            return rich
    return repr(value)


def run_cells(parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str | bytes]]:
    """The names that the cells define, and what the last expression of each cell shows; as Jupyter runs them."""
    names: dict[str, Any] = {}
    outputs: dict[str, str | bytes] = {}
    for cell in read_cells():
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        if "parameters" in cell["metadata"].get("tags", ()):
            assert parameters.keys() <= names.keys()
            names.update(parameters)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
            if value is not None:
                outputs[cell["id"]] = shown(value)
    return names, outputs


def test_the_notebook_is_valid_and_has_no_outputs() -> None:
    cells = read_cells()
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        common = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "markdown":
            assert cell.keys() == common
            continue
        assert cell["cell_type"] == "code"
        assert cell.keys() == common | {"execution_count", "outputs"}
        assert (cell["execution_count"], cell["outputs"]) == (None, [])
        assert max(len(line.rstrip("\n")) for line in cell["source"]) <= WIDEST


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.training.tune_process", lambda threads=None: None)
    monkeypatch.setitem(TOY_COUNTS, "valid", 5)
    names, outputs = run_cells({"PAIRS": 200, "TEST": 3, "FOLDER": str(tmp_path / "model")})
    assert str(outputs["train"]).startswith("<Translator model: bahdanau, ")
    assert str(outputs["page"]).startswith('<div class="regard-look">')
    assert outputs["plot"][:4] == b"\x89PNG"
    assert names["report"].scores.sentences == 3
    assert (tmp_path / "model" / "steps.gif").exists()


@pytest.mark.slow
def test_the_model_of_the_notebook_learns(tmp_path: Path) -> None:
    names, _ = run_cells({"FOLDER": str(tmp_path / "model")})
    assert names["report"].scores["bleu"].value >= 80
    assert names["good"].perplexity < names["bad"].perplexity
