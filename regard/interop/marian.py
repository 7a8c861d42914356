"""Imports a Hugging Face Marian model (any OPUS-MT model on disk) as a Regard model folder.

    config.json  model.safetensors  source.spm  target.spm  vocab.json [target_vocab.json]  [generation_config.json]

`transformers` is not needed. Regard's vocabularies begin with `<pad> <unk> <s> </s>`: the rows of the embedding are
reordered, and a row for `<s>`, which Marian lacks, is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from regard import __version__
from regard.config.models import TransformerSettings
from regard.config.recipes import explain
from regard.config.settings import Recipe, SearchSettings, TextSettings, TrainingSettings
from regard.config.vocabulary import BOS, SPECIAL_PIECES
from regard.data.text.sentencepiece import SentencePieceTokenizer
from regard.errors import ConfigError, ModelFolderError
from regard.inference.folder import write_folder
from regard.interop.marian_names import (
    DECODER_WORDS,
    ENCODER_WORDS,
    OUTPUT,
    OUTPUT_BIAS,
    POSITIONS,
    SHARED,
    layer_names,
)
from regard.models import build_model
from regard.nn.positions import position_table
from regard.storage.folder import remove_all
from regard.storage.reading import TOKENIZER_BYTES, read_bounded, read_json
from regard.storage.weights import load_tensors, model_tensors, read_tensors, shapes_alone
from regard.training.start import check_out

ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
NEVER = -1e4  # output bias of a token that is never produced
DOWNLOAD = "download the folder again"


class MarianConfig(BaseModel):
    """The keys of config.json that affect the model, with the defaults of `transformers`."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    model_type: str
    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    d_model: int = 1024
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    decoder_ffn_dim: int = 4096
    activation_function: str = "gelu"
    dropout: float = 0.1
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    static_position_embeddings: bool = True
    normalize_before: bool = False
    normalize_embedding: bool = False
    add_final_layer_norm: bool = False
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58100
    num_beams: int | None = None


@dataclass(frozen=True)
class Vocabulary:
    """Marian's ids in Regard's order; None for a token that Marian lacks."""

    pieces: list[str]
    rows: list[int | None]

    @property
    def size(self) -> int:
        """Size of Marian's vocabulary."""
        return len({row for row in self.rows if row is not None})

    @property
    def adds_start(self) -> bool:
        """Whether a row for <s> is added: Marian lacks the token, or uses it for another special token."""
        return self.size < len(self.rows)


def import_marian(folder: Path, out: Path, *, overwrite: bool = False) -> int:
    """Import a Marian folder as a Regard folder; return the number of parameters."""
    if out.resolve() == folder.resolve():
        raise ConfigError(f"{out}: is the imported folder itself: choose another --out.")
    check_out(out, overwrite)
    config = _read_config(folder)
    settings = _settings(config, folder)
    source, target = _vocabularies(folder, config)
    tokenizers = _tokenizer(folder, "source", source), _tokenizer(folder, "target", target)
    recipe = _recipe(folder, config, settings, tokenizers)
    tensors = _read_weights(folder)
    planned = shapes_alone(lambda: build_model(settings, len(source.pieces), len(target.pieces)))
    given = _tensors(tensors, planned.state_dict(), source, target, str(folder / "model.safetensors"))
    model = build_model(settings, len(source.pieces), len(target.pieces))
    own = model_tensors(model)
    load_tensors(model, {name: given[name] for name in own}, folder)
    count = sum(parameter.numel() for parameter in model.parameters())
    sizes = {"source_vocabulary": len(source.pieces), "target_vocabulary": len(target.pieces)}
    if overwrite:
        remove_all(out)
    write_folder(
        out,
        recipe=recipe,
        source_tokenizer=tokenizers[0],
        target_tokenizer=tokenizers[1],
        weights=own,
        metrics={"parameters": count, **sizes, "imported_from": f"Marian model {folder.resolve().name}"},
        card=_card(folder, out, count),
    )
    return count


# --- config.json --------------------------------------------------------------------------------------------------


def _read_config(folder: Path) -> MarianConfig:
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: there is no such folder: give the folder of a Hugging Face Marian model.")
    file = _needed(folder, "config.json")
    table = read_json(file)
    if table.get("model_type") != "marian":
        raise ModelFolderError(
            f"{file}: model_type is {table.get('model_type')!r}, not 'marian': give a Hugging Face Marian model."
        )
    if (folder / "generation_config.json").exists():
        table["num_beams"] = read_json(folder / "generation_config.json").get("num_beams", table.get("num_beams"))
    try:
        return MarianConfig.model_validate(table)
    except ValidationError as error:
        raise ModelFolderError(f"{file}: {explain(error, MarianConfig, table)}") from None


def _settings(config: MarianConfig, folder: Path) -> TransformerSettings:
    """The settings of the Transformer; raises if Regard does not support an option of the model."""
    file = folder / "config.json"

    def refuse(key: str, why: str) -> ModelFolderError:
        return ModelFolderError(f"{file}: {key} = {getattr(config, key)!r}: {why}: Regard cannot import this model.")

    for key in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        if getattr(config, key):
            raise refuse(key, "Marian models are post-norm without a final norm")
    if not config.static_position_embeddings:
        raise refuse("static_position_embeddings", "Regard has sinusoidal, not learned, position encodings")
    if config.activation_function not in ACTIVATIONS:
        raise refuse("activation_function", f"Regard has {', '.join(sorted(ACTIVATIONS))}")
    for ours, theirs in (
        ("encoder_attention_heads", "decoder_attention_heads"),
        ("encoder_ffn_dim", "decoder_ffn_dim"),
    ):
        if getattr(config, ours) != getattr(config, theirs):
            raise refuse(theirs, f"it differs from {ours} = {getattr(config, ours)}, and Regard has one size for both")
    tied = "none" if not config.tie_word_embeddings else "target"
    table = {
        "hidden_size": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "heads": config.encoder_attention_heads,
        "feedforward_size": config.encoder_ffn_dim,
        "dropout": config.dropout,
        "norm": "post",
        "activation": ACTIVATIONS[config.activation_function],
        "positions": "halves",
        "attention_bias": True,
        "output_bias": True,
        "scale_embeddings": config.scale_embedding,
        "tie_embeddings": "all" if tied != "none" and config.share_encoder_decoder_embeddings else tied,
        "start_token": "pad" if config.decoder_start_token_id == config.pad_token_id else "bos",
    }
    try:
        return TransformerSettings.model_validate(table)
    except ValidationError as error:
        raise ModelFolderError(f"{file}: {explain(error, TransformerSettings, table)}") from None


def _recipe(
    folder: Path,
    config: MarianConfig,
    settings: TransformerSettings,
    tokenizers: tuple[SentencePieceTokenizer, SentencePieceTokenizer],
) -> Recipe:
    """A recipe with the model's beam size and settings for fine-tuning."""
    return Recipe(
        description=f"Marian model {folder.resolve().name}, imported",
        paper="Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020",
        model=settings,
        text=TextSettings(
            tokenizer=tokenizers[1].kind,
            vocabulary_size=max(8, tokenizers[1].size),
            joint=config.share_encoder_decoder_embeddings,
            byte_fallback=not tokenizers[1].says_unknown,
            max_length=512,
        ),
        training=TrainingSettings(epochs=3, learning_rate=2e-5, schedule="linear", warmup=200),
        search=SearchSettings(beam=config.num_beams if (config.num_beams or 1) > 1 else 5),
    )


# --- vocabularies -------------------------------------------------------------------------------------------------


def _vocabularies(folder: Path, config: MarianConfig) -> tuple[Vocabulary, Vocabulary]:
    source = _vocabulary(_needed(folder, "vocab.json"), config, config.vocab_size)
    if config.share_encoder_decoder_embeddings:
        return source, source
    target_file = folder / "target_vocab.json"
    size = config.decoder_vocab_size or config.vocab_size
    return source, _vocabulary(target_file, config, size) if target_file.exists() else source


def _vocabulary(file: Path, config: MarianConfig, size: int) -> Vocabulary:
    ids = read_json(file, TOKENIZER_BYTES)
    if sorted(ids.values(), key=str) != sorted(range(size), key=str):
        raise ModelFolderError(
            f"{file}: has {len(ids)} tokens, but the model has the ids 0 to {size - 1}: "
            f"vocabulary and model do not match; {DOWNLOAD}."
        )
    names = {number: piece for piece, number in ids.items()}
    if "<unk>" not in ids:
        raise ModelFolderError(f"{file}: has no token <unk>: {DOWNLOAD}.")
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        if getattr(config, key) not in names:
            raise ModelFolderError(
                f"{file}: config.json has {key} = {getattr(config, key)}, but the ids are 0 to {size - 1}: {DOWNLOAD}."
            )
    pad, eos, start = config.pad_token_id, config.eos_token_id, config.decoder_start_token_id
    bos = ids.get("<s>") if start == pad else start
    special = [pad, ids["<unk>"], bos, eos]
    rest = [number for number in range(size) if number not in special]
    taken = [names[number] for number in rest if names[number] in SPECIAL_PIECES]
    if len({pad, ids["<unk>"], eos}) < 3 or taken:
        raise ModelFolderError(
            f"{file}: <pad>, </s> and <unk> differ from the padding, end and unknown tokens of config.json: {DOWNLOAD}."
        )
    return Vocabulary([*SPECIAL_PIECES, *(names[number] for number in rest)], [*special, *rest])


def _tokenizer(folder: Path, side: str, vocabulary: Vocabulary) -> SentencePieceTokenizer:
    file = _needed(folder, f"{side}.spm")
    return SentencePieceTokenizer(read_bounded(file, TOKENIZER_BYTES), str(file), vocabulary.pieces)


def _needed(folder: Path, name: str) -> Path:
    if not (folder / name).exists():
        raise ModelFolderError(f"{folder / name}: is missing: a Marian model needs it; {DOWNLOAD}.")
    return folder / name


# --- weights ------------------------------------------------------------------------------------------------------


def _read_weights(folder: Path) -> dict[str, Tensor]:
    file = folder / "model.safetensors"
    if not file.exists() and (folder / "pytorch_model.bin").exists():
        convert = (
            f"from transformers import MarianMTModel as M; M.from_pretrained('{folder}').save_pretrained('{folder}')"
        )
        raise ModelFolderError(
            f"{folder / 'pytorch_model.bin'}: is a pickle, which can run arbitrary code, so Regard does not read it: "
            f'if you trust it, write model.safetensors with: python -c "{convert}"'
        )
    return read_tensors(_needed(folder, "model.safetensors"))


def _tensors(
    given: Mapping[str, Tensor], like: Mapping[str, Tensor], source: Vocabulary, target: Vocabulary, where: str
) -> dict[str, Tensor]:
    """The weights under Regard's names; `like` has the expected shapes."""

    def get(shape: Sequence[int], *names: str) -> Tensor:
        name = next((name for name in names if name in given), None)
        if name is None:
            raise ModelFolderError(f"{where}: the tensor {names[0]} is missing: {DOWNLOAD}.")
        if tuple(given[name].shape) != tuple(shape):
            raise ModelFolderError(
                f"{where}: the tensor {name} has the shape {tuple(given[name].shape)}, but config.json and the "
                f"vocabulary require {tuple(shape)}: the files do not match; {DOWNLOAD}."
            )
        return given[name].float()

    _check_positions(given, where)
    tensors = {}
    for ours, theirs in layer_names(_layers(like, "encoder"), _layers(like, "decoder")):
        rows, *columns = like[ours].shape
        tensors[ours] = torch.cat([get((rows // len(theirs), *columns), name) for name in theirs])
    size = like["embeddings.target.weight"].size(1)
    homes = {
        "embeddings.source.weight": (source, (ENCODER_WORDS, SHARED, DECODER_WORDS, OUTPUT)),
        "embeddings.target.weight": (target, (DECODER_WORDS, SHARED, OUTPUT, ENCODER_WORDS)),
        "embeddings.output_weight": (target, (OUTPUT, DECODER_WORDS, SHARED, ENCODER_WORDS)),
    }
    for ours, (vocabulary, names) in homes.items():
        tensors[ours] = _reorder(get((vocabulary.size, size), *names), vocabulary)
    bias = get((1, target.size), OUTPUT_BIAS).squeeze(0) if OUTPUT_BIAS in given else torch.zeros(target.size)
    tensors["embeddings.output_bias"] = _reorder(bias, target)
    if target.adds_start:
        tensors["embeddings.output_bias"][BOS] = NEVER
    return tensors


def _layers(tensors: Mapping[str, Tensor], side: str) -> int:
    return len({name.split(".")[1] for name in tensors if name.startswith(f"{side}.")})


def _reorder(tensor: Tensor, vocabulary: Vocabulary) -> Tensor:
    """The rows in Regard's order, zeros for a token that Marian lacks."""
    rows = tensor[[row or 0 for row in vocabulary.rows]]
    for place, row in enumerate(vocabulary.rows):
        if row is None:
            rows[place] = 0
    return rows


def _check_positions(given: Mapping[str, Tensor], where: str) -> None:
    """Raise if stored position encodings differ from the computed ones."""
    for name in POSITIONS:
        if name in given and given[name].dim() == 2:
            length, size = given[name].shape
            ours = position_table(length, size, "halves", torch.float32, torch.device("cpu"))
            if not torch.allclose(given[name].float(), ours, atol=1e-2):
                raise ModelFolderError(
                    f"{where}: the positions in {name} are not Marian's sines and cosines: Regard cannot import them."
                )


def _card(folder: Path, out: Path, parameters: int) -> str:
    lines = [
        "---\nlibrary_name: regard\npipeline_tag: translation\n---\n",
        f"# {out.resolve().name}\n",
        f"The Hugging Face Marian model {folder.resolve().name}, imported by Regard {__version__}: "
        f"{parameters:,} parameters. The licence of the original model applies.\n",
        f'```python\nimport regard\n\nprint(regard.load("{out.resolve().name}").translate("…"))\n```\n',
    ]
    return "\n".join(lines)
