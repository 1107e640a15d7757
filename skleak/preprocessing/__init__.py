"""Preprocessing whose parameters are public knowledge, so that a guarantee reaches the raw table.

A scaler that is fitted on the records carries each record into every row: replace one, and all
rows move. The public transformers here learn nothing. Their parameters are required, come from
outside knowledge (a code book, the range of an instrument, a law), and each row is transformed by
itself: tables that differ in one raw record differ in one transformed row, of bounded norm.
"""

from skleak.preprocessing._blockwise import BlockwiseTransformer
from skleak.preprocessing._encoding import PublicOneHotEncoder
from skleak.preprocessing._scaling import (
    PublicImputer,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)

__all__ = [
    "BlockwiseTransformer",
    "PublicImputer",
    "PublicOneHotEncoder",
    "PublicScaler",
    "PublicTargetScaler",
    "RowNormClipper",
]
