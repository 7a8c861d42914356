"""Files that survive a crash: atomic writes, the model folder, the model card."""
