"""Three stories of normalisation, in numbers.

python docs/examples/normalisation.py
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from regard.config.models import TransformerSettings
from regard.nn.transformer import FeedForward, ResidualNorm

SIZE = 64
DEPTHS = (2, 4, 8, 16, 32)
WIRINGS = ("plain", "norm alone", "post", "pre")


def batch_and_layer() -> dict[str, float]:
    """How far the first sentence's normalised vector moves when the other sentences of its batch change."""
    torch.manual_seed(1)
    batch_norm, layer_norm = nn.BatchNorm1d(SIZE), nn.LayerNorm(SIZE)
    sentence = torch.randn(1, SIZE)
    mates, others = torch.randn(7, SIZE), 3 + 2 * torch.randn(7, SIZE)
    moved = {}
    for name, norm in (("batch", batch_norm), ("layer", layer_norm)):
        first, second = (norm(torch.cat([sentence, mate]))[0] for mate in (mates, others))
        moved[name] = (first - second).abs().max().item()
    return moved


def batch_of_one() -> str:
    """What batch normalisation says to a batch of one sentence while training."""
    try:
        nn.BatchNorm1d(SIZE)(torch.randn(1, SIZE))
    except ValueError as error:
        return str(error)
    return "nothing"


class Block(nn.Module):
    """One feed-forward sub-layer of the Transformer, wired in one of four ways."""

    def __init__(self, wiring: str) -> None:
        super().__init__()
        self.wiring = wiring
        settings = TransformerSettings(
            hidden_size=SIZE, feedforward_size=SIZE, dropout=0.0, norm="pre" if wiring == "pre" else "post"
        )
        self.layer = FeedForward(settings)
        self.residual = ResidualNorm(settings)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.wiring == "plain":
            return self.layer(inputs)
        if self.wiring == "norm alone":
            return self.residual.normalise(self.layer(inputs))
        return self.residual(inputs, self.layer)  # post or pre


def gradient_at_bottom(wiring: str, depth: int, starts: int = 10) -> tuple[float, float]:
    """Of the gradient at the top of a stack, how large it is at the bottom, and how alike (cosine), on average."""
    shares, cosines = [], []
    for seed in range(starts):
        torch.manual_seed(seed)
        stack = nn.Sequential(*(Block(wiring) for _ in range(depth)))
        inputs = torch.randn(128, SIZE, requires_grad=True)
        top = torch.randn(128, SIZE)
        stack(inputs).backward(top)
        assert inputs.grad is not None
        shares.append((inputs.grad.norm() / top.norm()).item())
        cosines.append(cosine_similarity(inputs.grad.flatten(), top.flatten(), 0).item())
    return sum(shares) / starts, round(sum(cosines) / starts, 2) + 0.0  # + 0.0: no minus before a zero


def main() -> dict[str, dict[int, tuple[float, float]]]:
    print("the same sentence among other sentences moves by")
    for name, distance in batch_and_layer().items():
        print(f"    {name} normalisation  {distance:.4f}")
    print(f"a batch of one sentence: {batch_of_one()}")
    found = {wiring: {depth: gradient_at_bottom(wiring, depth) for depth in DEPTHS} for wiring in WIRINGS}
    for number, (title, digits) in enumerate((("size", ".2g"), ("likeness (cosine)", ".2f"))):
        print(f"\nthe gradient at the bottom, compared with that at the top: {title}")
        print("depth       " + "".join(f"{depth:>10}" for depth in DEPTHS))
        for wiring, by_depth in found.items():
            print(f"{wiring:<12}" + "".join(f"{pair[number]:>10{digits}}" for pair in by_depth.values()))
    return found


if __name__ == "__main__":
    main()
