"""Rounds of one plugin, in few words."""

from dra.engine.descheduling.round import Limits, Profile, run_round
from dra.engine.descheduling.snapshot import Snapshot
from tests.dra.engine.descheduling.clusters import NOW, snapshot


class Protecting:
    """A filter that protects pods by name."""

    name = "Protecting"
    Args = None

    def __init__(self, *names):
        self._names = names

    def filter(self, pod, snapshot, args):  # noqa: ARG002 - as all filters
        return f"pod {pod.metadata.name}: is protected" if pod.metadata.name in self._names else ""


def play(plugin, args, nodes, pods=(), *, limits=None, node_fit=True, protected=(), now=NOW, **objects):
    """Return the result of a round of one plugin; `nodes` is a list of nodes, or a whole snapshot."""
    given = plugin.Args.model_validate(args, by_alias=True, by_name=False)
    cluster = nodes if isinstance(nodes, Snapshot) else snapshot(nodes, pods, now=now, **objects)
    profile = Profile(
        name="p",
        deschedule=((plugin(), given),),
        filters=((Protecting(*protected), None),),
        requires_place=node_fit,
    )
    result = run_round(cluster, [profile], limits=limits or Limits())
    assert not result.faults
    return result


def evicted(result):
    """Return the names of the pods that go, in order."""
    return [each.pod.metadata.name for each in result.decisions if each.verdict.accepted]


def refused(result):
    """Return the names of the pods that were proposed and stay, with the kind of refusal."""
    return {each.pod.metadata.name: each.verdict.refusal for each in result.decisions if not each.verdict.accepted}


def reasons(result):
    """Return the reasons by name of the pod."""
    return {each.pod.metadata.name: each.reason for each in result.decisions}


def targets(result):
    """Return the nodes with room by name of the pod."""
    return {each.pod.metadata.name: each.verdict.node for each in result.decisions if each.verdict.accepted}


def container(*, waiting="", terminated=None, code=0, restarts=0):
    """Return the status of a container."""
    state = {}
    if waiting:
        state["waiting"] = {"reason": waiting}
    if terminated is not None:
        state["terminated"] = {"reason": terminated, "exitCode": code}
    return {"name": "c", "restartCount": restarts, "state": state}


def statuses(*containers, init=(), ephemeral=(), **more):
    """Return fields of a pod's status."""
    kinds = {
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
        "ephemeralContainerStatuses": list(ephemeral),
    }
    return {name: given for name, given in kinds.items() if given} | more
