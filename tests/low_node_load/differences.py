"""Where the two plugins answer differently on purpose, and why; each kind is a row of KEP-notes.md."""

from typing import Final

from tests.low_node_load.cases import Json

MIDDLE_NODES: Final = (
    "without prod thresholds, Koordinator 1.6 counts nodes between the thresholds among those of numberOfNodes"
)
PHANTOM_LOAD: Final = (
    "with nodeFit, Koordinator 1.6 fills receivers in its model with pods that never go, and asks before it sorts"
)


def known(question: Json) -> str:
    """Return why the answers to a question may differ; empty if they must be the same."""
    args = question["args"]
    if args["nodeFit"]:
        return PHANTOM_LOAD
    return MIDDLE_NODES if args.get("numberOfNodes") else ""
