"""Reconstruction of whole records."""

from skleak.attacks.reconstruction._informed import InformedReconstruction

__all__ = ["InformedReconstruction"]
