"""Where the two allocators answer differently on purpose, and why."""

from typing import Any, Final

STALE: Final = (
    "upstream allocates from an old generation where the newest has nothing for the node; dra-reserve does not"
)


def known(question: Any) -> str:
    """Return why the answers to a question may differ; empty if they must be the same."""
    specs = [each["spec"] for each in question["slices"]]
    generations = {(spec["pool"]["name"], spec["pool"]["generation"]) for spec in specs}
    return STALE if len(generations) > len({name for name, _ in generations}) else ""
