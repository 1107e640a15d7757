"""Leakage as scikit-learn and Fairlearn show other scores: a scorer, and a frame of groups."""
