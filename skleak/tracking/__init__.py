"""Leakage beside other scores, in an experiment tracker; without rows of persons."""

from skleak.tracking._mlflow import log_report

__all__ = ["log_report"]
