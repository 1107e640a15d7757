"""Summaries of many numbers that come in blocks: of each block, then combined in any order."""
