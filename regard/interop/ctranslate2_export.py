"""`regard export --to ctranslate2`: exports a Transformer as a CTranslate2 model folder with its tokenizer."""

from __future__ import annotations

from pathlib import Path

from regard import __version__
from regard.decoding.engines.ctranslate2_file import MAX_POSITIONS, import_ctranslate2
from regard.decoding.engines.ctranslate2_spec import transformer_spec
from regard.interop.outgoing import read_transformer
from regard.storage.files import new_folder, write_bytes
from regard.storage.folder import CARD


def export_ctranslate2(path: Path, out: Path) -> None:
    """Write a folder for `ctranslate2.Translator`, with the tokenizer."""
    import_ctranslate2()
    model = read_transformer(path, "ctranslate2")
    folder = model.folder
    spec = transformer_spec(model.weights, folder.source_tokenizer, folder.target_tokenizer)
    with new_folder(out) as new:
        spec.save(str(new))
        for name, content in model.tokenizer_files().items():
            write_bytes(new / name, content.encode())
        write_bytes(new / CARD, _card(path, list(model.tokenizer_files())).encode())


def _card(path: Path, files: list[str]) -> str:
    return f"""# {path.resolve().name}

A Transformer trained with Regard, exported for CTranslate2 by Regard {__version__}. A source sentence is a list of
tokens of Regard's tokenizer, with `</s>` at the end.

```python
import ctranslate2
from regard.data.text.tokenizer import Tokenizer

source, target = Tokenizer.load("{files[0]}"), Tokenizer.load("{files[-1]}")
numbers = {{target.piece(number): number for number in range(target.size)}}
pieces = [source.piece(number) for number in source.encode("…")]
result = ctranslate2.Translator(".").translate_batch([pieces], beam_size=5)[0]
print(target.decode(numbers[piece] for piece in result.hypotheses[0]))
```

The length penalty differs: length to the power of `length_penalty` here, GNMT's penalty in Regard. Hypotheses with
nearly equal scores may be ranked differently. The maximum sentence length is {MAX_POSITIONS} tokens.
"""
