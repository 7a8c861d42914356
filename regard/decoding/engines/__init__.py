"""Decoding backends: compiled code that searches in place of `regard.decoding.search`."""
