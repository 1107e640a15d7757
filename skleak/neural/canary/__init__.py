"""Extraction of a secret token from a language model that was trained on it ([FANO23] 6.3)."""

from skleak.neural.canary._extraction import CanaryExtraction, causal_transformer

__all__ = ["CanaryExtraction", "causal_transformer"]
