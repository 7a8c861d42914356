"""Doors to other tools: Hugging Face Marian models come in; Transformers go out to it, CTranslate2 and ONNX."""
