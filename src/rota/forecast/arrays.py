"""Array types of this package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Compact = NDArray[np.float32]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
#: An index of the first axis of an array.
Rows = slice | NDArray[Any]

ALL = slice(None)
