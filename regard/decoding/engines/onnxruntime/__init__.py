"""ONNX Runtime as decoding backend.

model.py      a compiled model: opens the graphs of `engines/graphs/` and searches batches in threads
steps.py      the decoder steps of one batch, in preallocated buffers
search.py     greedy and beam search over these steps
engine.py     the engine
"""
