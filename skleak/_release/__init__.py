"""What may be published of a fitted pipeline; the root of skleak has the functions."""

from skleak._release._pipeline import ReleasedPipeline
from skleak._release._reading import from_json
from skleak._release._releasing import release

__all__ = ["ReleasedPipeline", "from_json", "release"]
