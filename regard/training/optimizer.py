"""Optimizers, learning rate and gradient clipping."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import SGD, Adadelta, Adam, AdamW, Optimizer

from regard.config.settings import LoopSettings


def build_optimizer(model: nn.Module, settings: LoopSettings) -> Optimizer:
    """The optimizer of the settings over all trainable parameters."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return SGD(parameters, lr=rate, weight_decay=decay)
    if settings.optimizer == "adadelta":
        return Adadelta(parameters, lr=rate, rho=settings.rho, eps=settings.adadelta_epsilon, weight_decay=decay)
    rule = AdamW if settings.optimizer == "adamw" else Adam
    # One pass over each tensor instead of a dozen.
    return rule(parameters, lr=rate, betas=settings.betas, eps=settings.epsilon, weight_decay=decay, fused=True)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def clip(model: nn.Module, limit: float | None) -> float:
    """Clip the gradient to the norm `limit`, and return its norm before."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf") if limit is None else limit)
    return float(norm)
