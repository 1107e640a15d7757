"""What may be published of a fitted pipeline; the root of skleak has the functions."""

from skleak._release._document import chain as chain
from skleak._release._document import of_several as of_several
from skleak._release._document import received_targets as received_targets
from skleak._release._releasing import ReleasedPipeline, from_json, release
from skleak._release._releasing import what_was_learned as what_was_learned

__all__ = ["ReleasedPipeline", "from_json", "release"]
