"""What may be published of a fitted pipeline; the root of skleak has the functions."""

from skleak._release._releasing import ReleasedPipeline, from_json, release

__all__ = ["ReleasedPipeline", "from_json", "release"]
