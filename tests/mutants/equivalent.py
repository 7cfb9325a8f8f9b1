"""Mutants that do the same as the code: no test can find them. Each with the reason, by file and changed code."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EQUIVALENT: Final[Mapping[tuple[str, str, str], str]] = MappingProxyType(
    {
        (
            "dra/engine/claims/claim_state.py",
            "2",
            "(3)",
        ): "how large the map of pruned pods grows before entries that are too old to count are dropped",
        (
            "dra/engine/cpus/accumulator.py",
            "snapshot.max_ref_count > 1",
            "(snapshot.max_ref_count >= 1)",
        ): "where a CPU has one holder at most, CPUs that can be chosen have none: all are sorted alike",
        (
            "dra/engine/diagnosis/cluster_state.py",
            "0.0",
            "(1.0)",
        ): "the origin of instants is arbitrary, and LATER is two horizons after either",
        (
            "dra/engine/cpus/accumulator.py",
            "(-len(lists[s]), s)",
            "((-len(lists[s]),))",
        ): "sockets are in the order of their numbers, and sorting keeps the order of those that are alike",
        (
            "dra/engine/cpus/accumulator.py",
            "1",
            "(2)",
        ): "twice each count: counts are compared with each other only",
        (
            "dra/engine/claims/generation/decide.py",
            "not view.held",
            "False",
        ): "a shortcut for the many owners without reservations: of no held claims none is assigned",
        (
            "controller/placement_reader.py",
            "self._clock.now() - began < TIME_SLICE",
            "(self._clock.now() - began <= TIME_SLICE)",
        ): "a piece of work may take TIME_SLICE: nothing happens at just that instant",
    }
)
"""(file, code before, code after) → why nobody can tell the difference."""
