"""The tasks of a service on Spark: the function that runs them in process, on the workers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake._progress import current, polled
from tidelake.engine import Work
from tidelake.errors import UnsupportedError
from tidelake.spark.bins import BIN_BYTES, LEAST_BINS, balanced
from tidelake.spark.write import tasks_of, typed_error
from tidelake.storage import MemoryStorage, Storage, open_storage

T = TypeVar("T")
R = TypeVar("R")
_ATTEMPTS = 100_000
"""A task of Spark's runs less tasks of ours than this."""


class SparkRunner:
    """Runs tasks on the workers of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, storage: Storage, work: Work[T, R], tasks: Sequence[T], sizes: Sequence[int]) -> list[R]:
        """One task of Spark's for each bin of about equal bytes."""
        if isinstance(storage, MemoryStorage):
            raise UnsupportedError("a table in memory is not seen by Spark's workers")
        if not tasks:
            return []
        bins = balanced(sizes, max(LEAST_BINS, -(-sum(sizes) // BIN_BYTES)))
        packed = [[(number, tasks[number]) for number in numbers] for numbers in bins]
        uri, options = storage.uri, storage.options

        def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            reached = open_storage(uri, options)
            task = TaskContext.get()
            first = 0 if task is None else int(task.taskAttemptId()) * _ATTEMPTS
            for batch in batches:
                for packed_number in batch.column(0).to_pylist():
                    done = [
                        (number, work(reached, one, first + place))
                        for place, (number, one) in enumerate(packed[packed_number])
                    ]
                    yield pa.record_batch([pa.array([pickle.dumps(done)], pa.binary())], names=["done"])

        mapper: Any = do
        frame = self._spark.range(0, len(bins), 1, len(bins)).mapInArrow(mapper, "done binary")
        try:
            with polled(tasks_of(self._spark)):
                # Statistics of files, not rows: a few hundred bytes for each file that was written.
                found = dict(pair for row in frame.collect() for pair in pickle.loads(row["done"]))
        except PySparkException as error:
            raise typed_error(error) from error
        current().stage("collect statistics")
        return [found[number] for number in range(len(tasks))]
