"""Decoding: greedy search, beam search and sampling with any model; `search.py` is the entry, `engines/` run it."""
