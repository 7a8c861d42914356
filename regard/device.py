"""Where to compute."""

from __future__ import annotations

import torch

from regard.errors import ConfigError


def usable_device(device: str | torch.device) -> torch.device:
    """The device of this name, if this machine has it."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(f"device {str(device)!r}: this machine or this torch has none: use 'cpu'.") from None
    return found
