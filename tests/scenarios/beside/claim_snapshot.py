"""A claim in the simulation of cluster autoscaler: pods that are not listed need a free entry, whoever they are.

Follows simulator/dynamicresources of cluster autoscaler 1.36 as ../shared/specs/kueue.md §2 records it: entries of any
kind count towards 256; a listed pod passes; a full list and a pod that is not in it are an error. Pods of a
ProvisioningRequest have made-up uids, so no list ever names them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import entries

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

LONGEST_LIST: Final = 256


class ClaimFullyReservedError(Exception):
    """The simulation ends for this pod: no node can run it."""


class ClaimSnapshot:
    """What the simulation makes of one claim; the claim itself stays as it is."""

    def __init__(self, claim: Json) -> None:
        self._uids: Final = {entry["uid"] for entry in entries(claim)}

    def reserve(self, uid: str) -> None:
        """Reserve the claim for a pod."""
        if uid in self._uids:
            return
        if len(self._uids) >= LONGEST_LIST:
            raise ClaimFullyReservedError(uid)
        self._uids.add(uid)

    def place_made_up_pods(self) -> int:
        """Return how many pods of a ProvisioningRequest find a free entry, one after another."""
        for number in itertools.count():
            try:
                self.reserve(f"made-up-{number}")
            except ClaimFullyReservedError:
                return number
        raise AssertionError("a list has an end")

    def place(self, pods: Iterable[Json]) -> int:
        """Return how many of these pods pass, one after another."""
        passed = 0
        for pod in pods:
            try:
                self.reserve(pod["metadata"]["uid"])
            except ClaimFullyReservedError:
                continue
            passed += 1
        return passed
