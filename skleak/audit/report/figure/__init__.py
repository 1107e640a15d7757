"""Geometry of the figures in the report of an audit."""
