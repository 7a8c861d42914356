"""Decoding backends. Each searches with the same settings and returns the same hypotheses.

engine.py             the protocol and its inputs
torch.py              Regard's search: every model, every option
processes.py          its worker processes
ctranslate2.py        compiled, Transformers only, translations only
onnxruntime/          compiled, every architecture, translations only
graphs/               ONNX graphs of every architecture
choice.py             selects the engine
"""
