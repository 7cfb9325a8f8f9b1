"""Where the two allocators answer differently on purpose, and why."""

from collections.abc import Iterator
from typing import Any, Final

FULL: Final = (
    "1.36 leaves out of all devices those that have too little left; 1.37 and dra-reserve do not allocate then"
)
DISTINCT: Final = "1.36 compares a device with the last one of each request only; 1.37 and dra-reserve with all"
COUNTERS: Final = "1.36 looks at pools with counters that are for other nodes, 1.37 and dra-reserve do not"
STALE: Final = (
    "upstream allocates from an old generation where the newest has nothing for the node; dra-reserve does not"
)
FAILED: Final = "upstream asks selectors about devices of other nodes in the same slice, too, and gives up if they fail"


def known(question: Any) -> str:
    """Return why the answers to a question may differ; empty if they must be the same."""
    asks = list(_asks(question))
    specs = [each["spec"] for each in question["slices"]]
    of_all = any(ask["allocationMode"] == "All" for ask in asks)
    if of_all and any("shareID" in each for each in question["held"]):
        return FULL
    distinct = any("distinctAttribute" in c for claim in question["claims"] for c in _devices(claim)["constraints"])
    if distinct and any(ask.get("count") != 1 for ask in asks):
        return DISTINCT
    if of_all and any("sharedCounters" in spec for spec in specs):
        return COUNTERS
    generations = {(spec["pool"]["name"], spec["pool"]["generation"]) for spec in specs}
    if len(generations) > len({name for name, _ in generations}):
        return STALE
    return FAILED if any("perDeviceNodeSelection" in spec for spec in specs) else ""


def _devices(claim: Any) -> Any:
    return claim["spec"]["devices"]


def _asks(question: Any) -> Iterator[Any]:
    for claim in question["claims"]:
        for request in _devices(claim)["requests"]:
            yield from request.get("firstAvailable") or [request["exactly"]]
