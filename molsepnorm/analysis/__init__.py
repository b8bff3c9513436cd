"""Explanations of a trained model."""
