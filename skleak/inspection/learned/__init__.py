"""What the transformers of a pipeline learned, in closed form."""

from skleak.inspection.learned._preprocessing import Preprocessing, learns_nothing_of

__all__ = ["Preprocessing", "learns_nothing_of"]
