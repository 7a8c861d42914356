"""ONNX graphs of the architectures."""
