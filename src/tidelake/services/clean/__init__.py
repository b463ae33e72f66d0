"""Cleaning: superseded file slices and replaced file groups go when nobody may read them any more."""

from tidelake.services.clean.cursor import begin_mark
from tidelake.services.clean.execute import Cleaner, clean, finish_cleans
from tidelake.services.clean.plan import CleanedFile, CleanResult, KeptFile
from tidelake.services.clean.runs import CleanRun, cleans_of

__all__ = [
    "CleanResult",
    "CleanRun",
    "CleanedFile",
    "Cleaner",
    "KeptFile",
    "begin_mark",
    "clean",
    "cleans_of",
    "finish_cleans",
]
