"""Names for the numpy arrays that merging passes around."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelake._arrays import Places as Places

Mask = npt.NDArray[np.bool_]
"""Row by row, yes or no."""
