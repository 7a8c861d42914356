"""Export a model folder with compact weights: int8 with a scale per row, a quarter of the size."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.errors import ModelFolderError
from regard.inference.load import load
from regard.inference.translator import Translator
from regard.storage.compact import compact_tensors
from regard.storage.files import new_folder, write_bytes, write_tensors
from regard.storage.folder import CARD, CONFIG, FINGERPRINT_FILE, MODEL_FILES, WEIGHTS, read_table
from regard.storage.weights import read_tensors

LEFT_OUT = (WEIGHTS, CARD, FINGERPRINT_FILE)
NOTE = """
## Compact weights

`regard export --to compact` stored every matrix as int8 with a float32 scale per row. Loading expands them to float32.
"""
NO_HASHES = (
    "The hashes of training sentences were left out: `regard evaluate` does not warn of test sentences among them.\n"
)
RESUMING = " The subfolder `training/` only serves `regard train --resume`; it may be deleted."  # not copied


def export_compact(path: Path, out: Path) -> tuple[int, int]:
    """Write the model into a new folder with compact weights; the sizes of both weight files in bytes."""
    if read_table(path)[1].get("model_class"):
        raise ModelFolderError(f"{path}: holds a model of your own class: compact its weights yourself.")
    loaded = load(path)  # checks everything that is copied
    if isinstance(loaded, Translator):
        assert loaded.read_only_model is not None  # read at first use
    with new_folder(out) as folder:
        write_tensors(folder / WEIGHTS, compact_tensors(read_tensors(path / WEIGHTS)))
        for name in MODEL_FILES:
            if name not in LEFT_OUT and (path / name).exists():
                shutil.copyfile(path / name, folder / name)
        card = (path / CARD).read_text("utf-8") if (path / CARD).exists() else f"# {path.resolve().name}\n"
        note = NOTE + (NO_HASHES if (path / FINGERPRINT_FILE).exists() else "")
        write_bytes(folder / CARD, (card.replace(RESUMING, "").rstrip("\n") + "\n" + note).encode())
        assert (folder / CONFIG).exists()
    return (path / WEIGHTS).stat().st_size, (out / WEIGHTS).stat().st_size
