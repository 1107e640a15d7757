"""Reconstruction of whole records."""
