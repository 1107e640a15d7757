"""Names for the array types used in signatures."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
RandomState: TypeAlias = "int | np.random.RandomState | np.random.Generator | None"
# Records as the core takes them: a dense float64 array or a CSR matrix, of shape (n, d).
Data: TypeAlias = Any
