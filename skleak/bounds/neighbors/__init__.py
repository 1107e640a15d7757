"""Bounds from what is known of any two values of a secret alone: their privacy, or its curve."""

from skleak.bounds.neighbors._curve import curve_advantage
from skleak.bounds.neighbors._differential_privacy import dp_advantage, gdp_advantage

__all__ = ["curve_advantage", "dp_advantage", "gdp_advantage"]
