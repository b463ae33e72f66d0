"""What whole arrays of numbers are asked for in several rooms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
"""Row by row, where: an index into something else."""


def ranges(starts: Places, counts: Places) -> Places:
    """The numbers of ranges, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
