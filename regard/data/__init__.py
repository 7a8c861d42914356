"""From what a user names to batches: text, images, and embedded corpora."""
