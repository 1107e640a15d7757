"""Cells of an audit in parallel, with checkpoints."""
