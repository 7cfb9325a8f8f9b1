"""The nodes that may receive a pod, as a term of a node selector: kube-scheduler must not choose any other node.

``matchFields`` takes one value for each requirement, so nodes are excluded one by one; more than a few receivers are
named by their label ``kubernetes.io/hostname``, which takes a list. The shorter form is taken, and both are bounded: a
Reservation is copied into a job and into a placeholder, and the term is joined with each term of the pod's own. A list
that is cut still names receivers alone.
"""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

HOSTNAME: Final = "kubernetes.io/hostname"
"""Label of nodes whose value need not be the node's name."""

EXCLUDED_MAX: Final = 32
"""Maximum nodes that are excluded one by one."""

NAMED_MAX: Final = 256
"""Maximum receivers that are named by their label."""


def receivers_term(
    receivers: AbstractSet[str] | None, nodes: Mapping[str, Mapping[str, str]], *, source: str, chosen: str
) -> dict[str, Any] | None:
    """Return the term that admits receivers alone; None if all nodes but the pod's own may receive it.

    ``nodes``: the name and the labels of each node; ``source``: the pod's node, which migrations exclude anyway;
    ``chosen``: the receiver with room for the pod, which the term always admits.
    """
    if receivers is None:
        return None
    excluded = sorted(nodes.keys() - receivers - {source})
    if not excluded:
        return None
    others = receivers - {source, chosen}
    hosts = _host_names(others | {chosen}, nodes, chosen=chosen) if others else []
    if hosts and len(hosts) < len(excluded):
        return {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": hosts}]}
    if others and len(excluded) <= EXCLUDED_MAX:
        return {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in excluded]}
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [chosen]}]}


def _host_names(receivers: AbstractSet[str], nodes: Mapping[str, Mapping[str, str]], *, chosen: str) -> list[str]:
    """Return labels that receivers alone have, at most `NAMED_MAX`; empty if that of ``chosen`` is not among these."""
    count = Counter(labels.get(HOSTNAME, "") for labels in nodes.values())
    of_receivers = Counter(nodes[name].get(HOSTNAME, "") for name in receivers & nodes.keys())
    own = {host for host, times in of_receivers.items() if host and times == count[host]}
    first = nodes.get(chosen, {}).get(HOSTNAME, "")
    if first not in own:
        return []
    return [first, *sorted(own - {first})][:NAMED_MAX]
