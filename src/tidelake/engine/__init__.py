"""Engines that run slice readers and the tasks of services."""

from tidelake.engine.executor import Executor, LocalExecutor
from tidelake.engine.tasks import LocalRunner, TaskRunner, Work

__all__ = ["Executor", "LocalExecutor", "LocalRunner", "TaskRunner", "Work"]
