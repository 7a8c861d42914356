"""From a model folder to answers: Translator, Captioner, Classifier, and what they return."""
