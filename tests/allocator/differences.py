"""Where the two allocators answer differently on purpose, and why."""

from collections.abc import Iterator
from typing import Any, Final

STALE: Final = (
    "upstream allocates from an old generation where the newest has nothing for the node; dra-reserve does not"
)
UNORDERED: Final = (
    "a request names one capacity twice and another one that the device lacks: since 1.38 the order of a map decides "
    "whether upstream gives up the pod or passes over the device; dra-reserve passes over it"
)


def known(question: Any) -> str:
    """Return why the answers to a question may differ; empty if they must be the same."""
    specs = [each["spec"] for each in question["slices"]]
    generations = {(spec["pool"]["name"], spec["pool"]["generation"]) for spec in specs}
    if len(generations) > len({name for name, _ in generations}):
        return STALE
    names = [[name.rpartition("/")[2] for name in requested] for requested in _requested(question)]
    return UNORDERED if any(1 < len(set(short)) < len(short) for short in names) else ""


def _requested(question: Any) -> Iterator[dict[str, str]]:
    """Yield the amounts of each request, and of each alternative of one."""
    for claim in question["claims"]:
        for request in claim["spec"]["devices"]["requests"]:
            for asked in [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or ():
                yield (asked.get("capacity") or {}).get("requests") or {}
