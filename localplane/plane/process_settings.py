"""Settings of a process that exists to run a plane; whoever runs a plane beside other work leaves them alone."""

import gc
from typing import Final

GC_THRESHOLDS: Final = (10_000, 10, 10)
"""Thresholds of the garbage collector, by generation; Python's first one is 700 objects."""


def relax_garbage_collector() -> None:
    """Let the garbage collector look less often, and never again at what is imported.

    Reference counts free nearly all that a plane drops. At 10,000 pods, looking for the rest took an eighth of the CPU
    time.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
