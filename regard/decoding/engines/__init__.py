"""Decoding backends. Each searches with the same settings and returns the same hypotheses.

engine.py             the protocol and its inputs
torch.py              Regard's search: every model, every option
ctranslate2.py        compiled, Transformers only, translations only
processes.py          worker processes of torch.py
choice.py             selects the engine
"""
