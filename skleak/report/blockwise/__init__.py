"""Reports of records outside memory: summaries of blocks, and the few records that matter."""

from skleak.report.blockwise._build import build_blockwise_report

__all__ = ["build_blockwise_report"]
