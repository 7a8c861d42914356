"""Import of Marian models; export of Transformers to Marian, CTranslate2 and ONNX, of embeddings to word2vec."""
