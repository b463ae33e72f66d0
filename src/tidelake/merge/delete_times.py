"""The event times of deletes: by their ordering value where the table orders by its event times, else their commit's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.merge.arrays import Mask
from tidelake.merge.spec import MergeSpec
from tidelake.schema.event_time import stored_to_ms

Bounds = tuple[int | None, int | None]


def delete_bounds_ms(
    ordering: Sequence[pa.Array],
    unconditional: Mask,
    spec: MergeSpec,
    fields: Sequence[str],
    unit: str | None,
    commit_ms: int,
) -> Bounds:
    """The least and greatest event time of the deletes of one commit, given their ordering values in comparable form.

    A delete that has no event time of its own counts with the requested time of its commit.
    """
    if len(unconditional) == 0:
        return None, None
    times: list[int] = []
    untimed = np.ones(len(unconditional), dtype=np.bool_)
    for place, (name, kind) in enumerate(zip(spec.ordering_fields, spec.ordering_types, strict=True)):
        if name not in fields:
            continue
        values = pc.if_else(pa.array(unconditional), pa.scalar(None, pa.int64()), pc.cast(ordering[place], pa.int64()))
        untimed &= np.asarray(values.is_null())
        found = pc.min_max(values)
        if found["min"].is_valid:
            times += [stored_to_ms(found[side].as_py(), kind, unit) for side in ("min", "max")]
    if untimed.any():
        times.append(commit_ms)
    return min(times), max(times)


def joined_bounds(*bounds: Bounds) -> Bounds:
    """The bounds that hold all of these."""
    lows = [low for low, _ in bounds if low is not None]
    highs = [high for _, high in bounds if high is not None]
    return min(lows, default=None), max(highs, default=None)
