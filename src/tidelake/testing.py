"""Time and faults, injected: for tests of code that uses tables, and for our own."""

from tidelake._clock import ManualClock
from tidelake.storage import Fault, FaultyStorage, MemoryStorage, SimulatedCrash

__all__ = ["Fault", "FaultyStorage", "ManualClock", "MemoryStorage", "SimulatedCrash"]
