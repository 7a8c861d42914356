"""Trained models for Regard: model folders GROUP/ARCHITECTURE, read by `regard translate de-en` and the like."""
