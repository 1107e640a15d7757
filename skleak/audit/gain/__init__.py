"""Attacks on training records against control records and imputation."""
