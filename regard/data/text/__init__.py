"""Text to token ids to batches: `corpus`, `tokenizer`, `batches`, and the embedded corpora in `toy`."""
