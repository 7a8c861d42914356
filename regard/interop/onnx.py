"""`regard export --to onnx`: exports a translation model of any architecture as ONNX graphs with its tokenizers."""

from __future__ import annotations

from pathlib import Path

from regard import __version__
from regard.decoding.engines.graphs.compile import compile_model
from regard.errors import ModelFolderError
from regard.inference.folder import Folder, read_folder
from regard.storage.files import new_folder, write_bytes
from regard.storage.folder import CARD, JOINT, SOURCE, TARGET


def export_onnx(path: Path, out: Path) -> None:
    """Write a folder with the graphs `encode`, `step` and `project`, their weights, a manifest and the tokenizers."""
    folder = read_folder(path)
    weights = None if folder.model_class is not None else folder.model().compilable()
    if weights is None:
        raise ModelFolderError(f"{path}: is a {folder.model_class}, but onnx supports the built-in architectures only.")
    arrays = {name: tensor.float().numpy() for name, tensor in weights.tensors.items()}
    files = compile_model(weights.settings, arrays, int8=False)
    tokenizers = _tokenizers(folder)
    with new_folder(out) as new:
        for name, content in {**files, **tokenizers, CARD: _card(path, folder, list(tokenizers)).encode()}.items():
            write_bytes(new / name, content)


def _tokenizers(folder: Folder) -> dict[str, bytes]:
    source, target = folder.source_tokenizer.to_json().encode(), folder.target_tokenizer.to_json().encode()
    return {JOINT: source} if source == target else {SOURCE: source, TARGET: target}


def _card(path: Path, folder: Folder, tokenizers: list[str]) -> str:
    return f"""# {path.resolve().name}

A {folder.recipe.model.kind} model trained with Regard, exported as ONNX graphs by Regard {__version__}.

| graph | inputs | outputs |
|---|---|---|
| `encode.onnx`, once per batch | `source` (B, S), `lengths` (B,) | `memory.*`, `state.*` |
| `step.onnx`, once per token | `token`, `parent` (N,), `position` (1,), `memory.*`, `state.*` | `hidden` (N, D), \
`next.*`, `alignment` (N, S) if the model has attention |
| `project.onnx`, once per token | `hidden` (N, D), `k` (1,) | `logits` (N, V); the k largest log-probabilities `best` \
and their ids `token` |

The weights are in `weights.bin`; the graphs read it from their own folder. `graphs.json` has the names of the memory,
the shapes of the states and the sizes of the vocabularies. Padding is 0. A sentence ends with 3. Decoding starts with
2; 0 and 2 never appear. The outputs `next.*` of a step are the inputs `state.*` of the next one, whose row n continues
row `parent[n]`. The rows of a sentence are adjacent, for beam search.

```python
import numpy as np
import onnxruntime
from regard.data.text.tokenizer import Tokenizer

encode, step, project = (onnxruntime.InferenceSession(f"{{name}}.onnx") for name in ("encode", "step", "project"))
source, target = Tokenizer.load("{tokenizers[0]}"), Tokenizer.load("{tokenizers[-1]}")
ids = np.array([source.encode("…")])


def run(graph, values):
    names = [output.name for output in graph.get_outputs()]
    needed = [given.name for given in graph.get_inputs()]
    return dict(zip(names, graph.run(names, {{name: values[name] for name in needed}})))


values = run(encode, {{"source": ids, "lengths": np.array([ids.shape[1]])}})
values |= {{"parent": np.array([0]), "k": np.array([1])}}
words = [2]
while words[-1] != 3 and len(words) < 100:
    values |= {{"token": np.array(words[-1:]), "position": np.array([len(words) - 1])}}
    found = run(step, values)
    values |= {{name.replace("next", "state"): value for name, value in found.items() if name.startswith("next")}}
    logits = run(project, {{**found, "k": values["k"]}})["logits"]
    logits[:, [0, 2]] = -np.inf
    words.append(int(logits.argmax()))
print(target.decode(words))
```
"""
