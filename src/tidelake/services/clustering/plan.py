"""Planning a clustering: which file groups are rewritten together, into fewer files or in another order.

Within a partition, file groups whose base file is below the small-file limit are packed, the largest first, into groups
of a bounded number of bytes. A group is work if

- it becomes fewer files, or
- it is to be sorted, and has a slice that is not known to be in that order yet.

So a single small file is no work, unless it is to be sorted, and a table comes to rest. Where hashes make file groups
(the BUCKET index) nothing can be put together: each bucket is a group of its own, and only sorting is work.

Rows are sorted within a group, not between groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tidelake._cached import cached
from tidelake._limits import MIB
from tidelake.config import (
    CLUSTERING_GROUP_BYTES,
    CLUSTERING_GROUPS,
    CLUSTERING_ORDER,
    CLUSTERING_SMALL_BYTES,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_TARGET_BYTES,
)
from tidelake.errors import NotFoundError
from tidelake.filegroup import FileSlice
from tidelake.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringStrategy,
    RequestedReplaceMetadata,
    SliceInfo,
)
from tidelake.query import TableSource
from tidelake.services.kinds import CLUSTERING, CLUSTERING_SIZES, MARK, SOURCE, layout_text, sizes_text
from tidelake.services.planner import Outcome, ServicePlanner
from tidelake.services.strategy import Candidate, ServiceConfig
from tidelake.storage import Storage

RUN_STRATEGY = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
"""How Apache Hudi carries our plans out."""


@dataclass(frozen=True)
class Layout:
    """How files are to look: in which order their rows are, and how large they are."""

    columns: tuple[str, ...]
    order: str
    target_bytes: int

    @staticmethod
    def of(config: ServiceConfig) -> Layout:
        """What the options ask for."""
        options = config.options
        return Layout(
            CLUSTERING_SORT_COLUMNS.of(options), CLUSTERING_ORDER.of(options), CLUSTERING_TARGET_BYTES.of(options)
        )

    @property
    def name(self) -> str:
        """Empty if rows are not sorted."""
        return layout_text(self.columns, self.order)

    def outputs(self, sizes: Sequence[int]) -> list[list[int]]:
        """Which inputs, by number, become one file: whole ones, in their order, up to the target."""
        bins: list[list[int]] = []
        held = 0
        for number, size in enumerate(sizes):
            if not bins or held + size > self.target_bytes:
                bins.append([])
                held = 0
            bins[-1].append(number)
            held += size
        return bins

    def output_count(self, sizes: Sequence[int]) -> int:
        """How many files some inputs become."""
        if self.columns:
            return max(1, -(-sum(sizes) // self.target_bytes))
        return len(self.outputs(sizes))


class ClusteringPlanner(ServicePlanner):
    """Small file groups that can be put together, or sorted."""

    kind = CLUSTERING

    @cached
    def wanted(self) -> Layout:
        """How files are to look."""
        return Layout.of(self.config)

    @property
    def layout(self) -> str:
        """The order asked for."""
        return self.wanted.name

    @property
    def terms(self) -> str:
        """The sizes that the options say."""
        return sizes_text(self.config.options)

    def work_in(self, source: TableSource, slices: Sequence[FileSlice]) -> Sequence[Candidate]:
        """The slices of groups that are work."""
        limit = CLUSTERING_SMALL_BYTES.of(self.config.options)
        # An exact table's logs hold events that must not come into a base file yet; others may hold deletes that are kept.
        table = self.config.table
        keeps_logs = table.is_exact or bool(table.tombstone_seconds)
        fit = [file_slice for file_slice in slices if not (keeps_logs and file_slice.logs)]
        small = [Candidate(file_slice) for file_slice in fit if _base_bytes(file_slice) < limit]
        found: list[Candidate] = []
        for group in self.packed(small):
            unsorted = self.layout and not all(self._is_in_order(source, c.file_slice) for c in group)
            if unsorted:
                reason = f"its rows are to be sorted by {self.layout}"
            elif self._becomes_fewer(group):
                reason = f"one of {len(group)} file groups below {limit:,} bytes"
            else:
                continue
            found += [Candidate(candidate.file_slice, reason) for candidate in group]
        return found

    def limited(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """As many groups as a plan takes, without those that are no work any more, because others hold a part."""
        groups = [group for group in self.packed(candidates) if self.layout or self._becomes_fewer(group)]
        return [c for group in groups[: CLUSTERING_GROUPS.of(self.config.options)] for c in group]

    def packed(self, candidates: Sequence[Candidate]) -> list[list[Candidate]]:
        """The groups that are rewritten together, each of one partition."""
        most = CLUSTERING_GROUP_BYTES.of(self.config.options)
        if self.config.table.buckets is not None:
            return [[candidate] for candidate in candidates]
        groups: list[list[Candidate]] = []
        for _, of_partition in groupby(candidates, key=lambda c: c.partition_path):
            held = most
            for candidate in sorted(of_partition, key=lambda c: (-c.file_slice.size_bytes, c.file_slice.file_id)):
                size = candidate.file_slice.size_bytes
                if held + size > most:
                    groups.append([])
                    held = 0
                groups[-1].append(candidate)
                held += size
        return groups

    def _becomes_fewer(self, group: Sequence[Candidate]) -> bool:
        return self.wanted.output_count([c.file_slice.size_bytes for c in group]) < len(group)

    def _is_in_order(self, source: TableSource, file_slice: FileSlice) -> bool:
        """Whether the slice is what a clustering into that order wrote."""
        wrote = source.timeline.by_time.get(file_slice.base_instant)
        if wrote is None or wrote.pending_action != CLUSTERING.action or file_slice.logs:
            return False
        known = self._layouts.get(file_slice.base_instant)
        if known is None:
            try:
                facts = CLUSTERING.facts(
                    source.storage.get(f"{source.config.timeline_dir}/{wrote.requested_file_name}")
                )
            except NotFoundError:
                facts = None
            known = "" if facts is None else facts.layout
            self._layouts[file_slice.base_instant] = known
        return known == self.layout

    @cached
    def _layouts(self) -> dict[str, str]:
        """The layouts of completed clusterings that were looked at."""
        return {}


def encode_plan(storage: Storage, planner: ClusteringPlanner, outcome: Outcome, strategy: str) -> bytes:
    """The plan as the timeline keeps it, so that Apache Hudi can carry it out too."""
    layout = planner.wanted
    params = {option.key: str(option.of(planner.config.options)) for option in CLUSTERING_SIZES}
    if layout.columns:
        params |= {CLUSTERING_SORT_COLUMNS.key: ",".join(layout.columns), CLUSTERING_ORDER.key: layout.order}
    plan = ClusteringPlan(
        tuple(_group(storage, layout, group) for group in planner.packed(outcome.chosen)),
        ClusteringStrategy(RUN_STRATEGY, params, 1),
        {MARK: "1", SOURCE: outcome.window.source, "tidelake.strategy": strategy},
        1,
        True,
        tuple(outcome.left),
    )
    return RequestedReplaceMetadata("CLUSTER", plan, {}, 1).encode(_SYNC)


_SYNC = b"tidelake-cluster"


def _group(storage: Storage, layout: Layout, group: Sequence[Candidate]) -> ClusteringGroup:
    logs = sum(len(c.file_slice.logs) for c in group)
    log_bytes, base_bytes = sum(c.log_bytes for c in group), sum(c.base_bytes for c in group)
    metrics = {
        "TOTAL_LOG_FILES": float(logs),
        "TOTAL_IO_READ_MB": float((base_bytes + log_bytes) // MIB),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes),
        "TOTAL_IO_WRITE_MB": float(base_bytes // MIB),
        "TOTAL_IO_MB": float((2 * base_bytes + log_bytes) // MIB),
    }
    outputs = layout.output_count([c.file_slice.size_bytes for c in group])
    return ClusteringGroup(tuple(_slice(storage, c.file_slice) for c in group), metrics, outputs, None, 1)


def _slice(storage: Storage, file_slice: FileSlice) -> SliceInfo:
    return SliceInfo(
        "" if file_slice.base is None else _full_path(storage, file_slice.base.path),
        tuple(_full_path(storage, log.path) for log in file_slice.logs),
        file_slice.file_id,
        file_slice.partition_path,
        "",
        1,
    )


def _full_path(storage: Storage, path: str) -> str:
    """A path as Apache Hudi's plans have it: with a scheme."""
    native = storage.native_path(path)
    return f"file:{native}" if native.startswith("/") else native


def _base_bytes(file_slice: FileSlice) -> int:
    return 0 if file_slice.base is None else file_slice.base.size_bytes
