"""Typed settings and recipes, for text and for images; nothing here imports torch."""
