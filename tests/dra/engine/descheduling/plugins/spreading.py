"""Replicas on nodes, and one round of a Balance plugin over them, in few words."""

from dra.engine.descheduling.round import Limits, Profile, run_round
from tests.dra.engine.descheduling.clusters import pod, snapshot

GPU_TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


class Protected:
    """A filter that protects the pods with label `protected`, and those that are being deleted."""

    name = "Protected"
    Args = None

    def filter(self, pod, snapshot, args):  # noqa: ARG002 - a filter need not use what it is given
        return "protected" if "protected" in (pod.metadata.labels or {}) or pod.metadata.deleting else ""


def replicas(counts, *, owner="web", **more):
    """Return pods of one owner: `counts` is node → their number, or the numbers on n1, n2, ….

    Each pod is one second younger than the one before.
    """
    given = counts if isinstance(counts, dict) else {f"n{place}": count for place, count in enumerate(counts, start=1)}
    prefix = more.pop("prefix", owner)
    places = [node for node, count in given.items() for _ in range(count)]
    return [
        pod(f"{prefix}-{number}", node, owner=owner, created=-86400 + number, **more)
        for number, node in enumerate(places)
    ]


def balance(
    plugin, nodes, pods, *, args=None, limits=None, requires_place=True, profile_nodes=None, filters=(), **objects
):
    """Run a round of a plugin with some arguments; return its result."""
    profile = Profile(
        name="p",
        balance=((plugin, plugin.Args.model_validate(args or {})),),
        filters=((Protected(), None), *filters),
        nodes=profile_nodes,
        requires_place=requires_place,
    )
    result = run_round(snapshot(nodes, pods, **objects), [profile], limits=limits or Limits())
    assert not result.faults, result.faults
    return result


def evicted(result):
    """Return the pods that go, in order."""
    return [decision.pod for decision in result.decisions if decision.verdict.accepted]


def names(result):
    """Return the names of the pods that go, in order."""
    return [pod.metadata.name for pod in evicted(result)]
