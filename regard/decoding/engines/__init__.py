"""Decoding backends. Each searches with the same settings and returns the same hypotheses.

engine.py             the protocol and its inputs
torch.py              Regard's search: every model, every option
ctranslate2.py        compiled, Transformers only, translations only
choice.py             selects the engine
"""
