"""The filters against those of the local plane's scheduler, in the same words, where it knows the filter.

It knows taints, cordons, node selectors and affinity, resources and devices; neither pods' affinity nor readiness.
"""

from hypothesis import given
from hypothesis import strategies as st

from dra.engine.allocator import AllocationFailure, claim_to_allocate
from dra.engine.kube_scheduler.cluster_cache import ClusterCache
from dra.engine.kube_scheduler.node_info import PodRequests, insufficient_resources, unresolvable_reason
from tests.dra.engine.descheduling.clusters import node, pod, snapshot
from tests.dra.engine.descheduling.gpu_nodes import CLASSES, cards, gpu_pod

TAINTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


@st.composite
def hosts(draw):
    return [
        node(
            f"n{number}",
            cpu=draw(st.sampled_from(("1", "2", "4"))),
            labels={"zone": draw(st.sampled_from("ab"))} if draw(st.booleans()) else {},
            taints=[{"key": "t", "effect": draw(st.sampled_from(TAINTS))}] if draw(st.booleans()) else [],
            unschedulable=draw(st.integers(0, 5)) == 0,
            pods=draw(st.sampled_from(("1", "9"))),
        )
        for number in range(draw(st.integers(2, 4)))
    ]


@st.composite
def pods(draw, nodes):
    """Return pods with claims, or None for a claim."""
    free = {each.metadata.name: list(range(4)) for each in nodes}
    found = []
    for number in range(draw(st.integers(1, 5))):
        spec = {}
        if draw(st.booleans()):
            spec["nodeSelector"] = {"zone": draw(st.sampled_from("ab"))}
        if draw(st.booleans()):
            effect = draw(st.sampled_from(("", "NoSchedule")))
            spec["tolerations"] = [{"operator": "Exists", "effect": effect}]
        on, cpu = draw(st.sampled_from(sorted(free))), draw(st.sampled_from(("500m", "1", "2")))
        devices = free[on][: draw(st.integers(0, 3))]
        if devices:
            free[on] = free[on][len(devices) :]
            found.append(gpu_pod(f"p{number}", on, devices, cpu=cpu, owner=f"o{number}", **spec))
        else:
            found.append((pod(f"p{number}", on, cpu=cpu, owner=f"o{number}", **spec), None))
    return found


@given(st.data())
def test_a_pod_fits_where_the_scheduler_of_the_local_plane_would_put_its_replacement(data):
    nodes = data.draw(hosts())
    given_pods = data.draw(pods(nodes))
    counts = {each.metadata.name: data.draw(st.integers(0, 4)) for each in nodes}
    slices = [cards(name, count) for name, count in counts.items() if count]
    claims = [claim for _, claim in given_pods if claim is not None]
    seen = snapshot(nodes, [each for each, _ in given_pods], claims=claims, slices=slices, device_classes=CLASSES)
    cluster = ClusterCache()
    for each in nodes:
        cluster.update_node(each)
    for each in slices:
        cluster.inventory.observe(each)
    for each in CLASSES:
        cluster.update_class(each)
    for each in claims:
        cluster.claims.observe(each)
    for each, _ in given_pods:
        cluster.add_pod(each, each.spec.node_name)
    for candidate, claim in given_pods:
        demand = PodRequests.from_pod(candidate)
        for each in cluster.nodes:
            if each.name == candidate.spec.node_name:
                continue
            wanted = unresolvable_reason(each, demand) or ", ".join(insufficient_resources(each, demand))
            if not wanted and claim is not None:
                result = cluster.allocate([claim_to_allocate(claim, cluster.classes)], each)
                wanted = result.text if isinstance(result, AllocationFailure) else ""
            assert _words(seen.unfit_reason(candidate, each.name)) == _words(wanted)


def _words(reason):
    """Return a reason; a cordon is a taint, too, and which of several taints is named does not matter."""
    return "taint" if "taint" in reason or "unschedulable" in reason else reason
