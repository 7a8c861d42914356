"""Decoding backends. Each searches with the same settings and returns the same hypotheses.

engine.py             the protocol, and what every engine is given
torch.py              our own search: does everything, for every model
ctranslate2.py        compiled, for Transformers: translations alone
choice.py             decides which engine searches
"""
