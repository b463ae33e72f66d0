"""Cleaning: superseded file slices and replaced file groups go when nobody may read them any more."""

from tidelake.services.clean.cursor import begin_mark
from tidelake.services.clean.execute import Cleaner, clean, finish_cleans
from tidelake.services.clean.plan import CleanedFile, CleanResult, KeptFile

__all__ = ["CleanResult", "CleanedFile", "Cleaner", "KeptFile", "begin_mark", "clean", "finish_cleans"]
