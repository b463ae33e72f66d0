"""Names for the numpy arrays that merging passes around."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""Row by row, yes or no."""
Places = npt.NDArray[np.int64]
"""Row by row, where: an index into something else."""
