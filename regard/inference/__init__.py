"""Inference from a model folder: Translator, Captioner, Classifier and their results."""
