"""Engines that run slice readers."""

from tidelake.engine.executor import Executor, LocalExecutor

__all__ = ["Executor", "LocalExecutor"]
