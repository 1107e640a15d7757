"""Preprocessing whose parameters are public knowledge, so that a guarantee reaches the raw table.

A scaler that is fitted on the records carries each record into every row: replace one, and all
rows move. The public transformers here learn nothing. Their parameters are required, come from
outside knowledge (a code book, the range of an instrument, a law), and each row is transformed by
itself: tables that differ in one raw record differ in one transformed row, of bounded norm. The
private ones learn numbers with noise, under a guarantee that adds up with that of the model.
"""

from skleak.preprocessing._blockwise import BlockwiseTransformer
from skleak.preprocessing._encoding import PublicOneHotEncoder
from skleak.preprocessing._private import PrivateOneHotEncoder, PrivateScaler
from skleak.preprocessing._scaling import (
    PublicImputer,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)

__all__ = [
    "BlockwiseTransformer",
    "PrivateOneHotEncoder",
    "PrivateScaler",
    "PublicImputer",
    "PublicOneHotEncoder",
    "PublicScaler",
    "PublicTargetScaler",
    "RowNormClipper",
]
