"""Attribute inference, with and without the model."""
