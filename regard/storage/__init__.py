"""Crash-safe files: atomic writes, the model folder, the model card."""
