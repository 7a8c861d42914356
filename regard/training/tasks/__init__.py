"""What is learned: translation, captioning, classification."""
