"""A plugin for the descheduler: pods leave spot nodes whose provider has announced the end of the node.

The announcement is a taint, which each provider names in its own way. Pods of a low priority go last: there may be no
room for all.
"""

from collections.abc import Generator

from dra.engine.descheduling.plugin import Evict, PluginArgs, Snapshot, Trigger, Verdict


class LeaveSpotNodes:
    """Moves pods off nodes with the taint."""

    name = "LeaveSpotNodes"
    triggers = (
        Trigger(kind="Node", when="object.spec.taints.exists(taint, taint.key == 'example.com/spot-node-ends')"),
    )

    class Args(PluginArgs):
        """The arguments, in camelCase in the configuration."""

        taint: str = "example.com/spot-node-ends"
        """Key of the taint."""

        at_most: int = 50
        """Maximum pods that leave in a round."""

    def deschedule(self, snapshot: Snapshot, args: Args) -> Generator[Evict, Verdict, str | None]:
        """Yield the pods of such nodes, the important ones first."""
        ending = [node for node in snapshot.nodes.values() if any(taint.key == args.taint for taint in node.taints)]
        receivers = frozenset(snapshot.nodes) - {node.name for node in ending}
        pods = [pod for node in ending for pod in node.pods.values()]
        moved = 0
        for pod in sorted(pods, key=lambda pod: -pod.spec.priority):
            if moved >= args.at_most:
                return f"{moved} pods leave spot nodes in this round; atMost allows no more"
            verdict = yield Evict(pod, "its spot node ends", receivers=receivers)
            moved += verdict.accepted
        return None
