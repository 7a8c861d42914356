"""Tensor names of Hugging Face Marian models and of Regard."""

from __future__ import annotations

from collections.abc import Iterator

SHARED = "model.shared.weight"
ENCODER_WORDS = "model.encoder.embed_tokens.weight"
DECODER_WORDS = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
OUTPUT_BIAS = "final_logits_bias"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

# in a layer: Regard's name, and Marian's names of its parts, stacked by rows
PARTS = {
    "self_attention": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention.output": ("self_attn.out_proj",),
    "self_norm": ("self_attn_layer_norm",),
    "cross_attention": ("encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.output": ("encoder_attn.out_proj",),
    "cross_norm": ("encoder_attn_layer_norm",),
    "feedforward.inner": ("fc1",),
    "feedforward.outer": ("fc2",),
    "feedforward_norm": ("final_layer_norm",),
}


def layer_names(encoder_layers: int, decoder_layers: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Regard's name of each layer tensor, and Marian's names of its parts."""
    for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        for layer in range(layers):
            for ours, theirs in PARTS.items():
                if side == "encoder" and ours.startswith("cross"):
                    continue
                for end in ("weight", "bias"):
                    names = tuple(f"model.{side}.layers.{layer}.{part}.{end}" for part in theirs)
                    yield f"{side}.{layer}.{ours}.{end}", names
