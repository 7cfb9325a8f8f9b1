"""What pods have of their nodes' own resources through devices."""

from fractions import Fraction

import msgspec
import pytest

from dra.engine.devices import node_allocatable
from dra.engine.devices.allocator_releases import RELEASE_1_37, RELEASE_1_38
from dra.engine.devices.node_allocatable import UnaccountableError
from dra.engine.kube_scheduler.node_info import NodeInfo, insufficient_with_claims
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.scheduling import SchedulerNode, SchedulerPod
from dra.model.slices import Device
from tests.violations import for_each_case

MEMORY_PER_DEVICE = {"memory": {"mapping": {"deviceMultiplier": "2Gi"}}}
CORES = {"cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "2"}}}
CORES_OF_DRIVER = {"cpu": {"mapping": {"capacityKey": "d/cores", "capacityMultiplier": "2"}}}
HALVES = {"cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "500m"}}}
COSTS = {"memory": {"overhead": {"perPod": "1Gi", "perContainer": "256Mi"}}}
BOTH = {"memory": {"mapping": {"deviceMultiplier": "2Gi"}, "overhead": {"perPod": "1Gi"}}}
ONCE = {"memory": {"allocationMultiplier": "2Gi"}}
BY_CORES = {"cpu": {"capacityKey": "cores", "allocationMultiplier": "2"}}
BY_CORES_ALONE = {"cpu": {"capacityKey": "cores"}}


def pod(*, containers=("main",), initial=(), uid="p", **fields):
    def container(name):
        return {"name": name, "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "by-c"}]}}

    spec = {
        "containers": [*map(container, containers), {"name": "aside", "resources": {}}],
        "initContainers": [container(name) for name in initial],
        "resourceClaims": [{"name": "by-c", "resourceClaimName": "c"}],
    }
    return msgspec.convert({"metadata": {"name": uid, "uid": uid}, "spec": spec | fields}, SchedulerPod)


def claim(*devices, listed=(), consumed=None):
    results = [
        {"request": "r", "driver": "d", "pool": "p", "device": name}
        | ({} if consumed is None else {"consumedCapacity": consumed})
        for name in devices
    ]
    entries = [{"resource": "pods", "name": uid, "uid": uid} for uid in listed]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": entries}
    return msgspec.convert({"metadata": {"name": "c", "uid": "c"}, "spec": {}, "status": status}, ResourceClaim)


def offering(**devices):
    """Return what looks up devices by name."""
    found = {name: msgspec.convert({"name": name, **fields}, Device) for name, fields in devices.items()}
    return lambda item: found.get(item.device)


def of_137(**resources):
    return {"nodeAllocatableResources": resources}


def of_136(**resources):
    return {"nodeAllocatableResourceMappings": resources}


@for_each_case(
    [
        pytest.param({}, {}, {}, id="none"),
        pytest.param(of_137(**MEMORY_PER_DEVICE), {}, {"memory": 4 * 2**30}, id="for-each-device"),
        pytest.param(of_137(**CORES), {"cores": "3"}, {"cpu": 12}, id="for-consumed-capacity"),
        pytest.param(of_137(**HALVES), {"cores": "3"}, {"cpu": 3}, id="for-parts-of-consumed-capacity"),
        pytest.param(of_137(**CORES), {"d/cores": "3"}, {"cpu": 12}, id="for-capacity-consumed-with-the-domain"),
        pytest.param(of_137(**CORES_OF_DRIVER), {"cores": "3"}, {"cpu": 12}, id="for-capacity-named-with-the-domain"),
        pytest.param(of_137(**CORES), {"e/cores": "3"}, {}, id="for-capacity-of-another-domain"),
        pytest.param(of_137(**CORES), {"slots": "3"}, {}, id="for-capacity-that-was-not-consumed"),
        pytest.param(of_137(**COSTS), {}, {"memory": 2 * 2**30 + 2 * 2**28}, id="overhead"),
        pytest.param(of_137(**BOTH), {}, {"memory": 6 * 2**30}, id="mapping-and-overhead"),
        pytest.param(of_136(**ONCE), {}, {"memory": 4 * 2**30}, id="for-each-device-in-1.36"),
        pytest.param(of_136(**BY_CORES), {"cores": "3"}, {"cpu": 12}, id="for-consumed-capacity-in-1.36"),
        pytest.param(of_136(**BY_CORES_ALONE), {"cores": "3"}, {"cpu": 6}, id="without-multiplier-in-1.36"),
    ]
)
def test_a_pod_with_two_devices_has(device, given, expected):
    found = node_allocatable.node_allocatable_statuses(
        pod(), [(claim("a", "b", consumed=given), None)], offering(a=device, b=device)
    )
    given = node_allocatable.with_node_allocatable_statuses(pod(), found)
    costs = node_allocatable.overhead_of_containers(given).get("main", {})
    whole = node_allocatable.resources_through_claims(given)
    assert {name: amount + costs.get(name, 0) for name, amount in whole.items()} == expected


@pytest.mark.parametrize(
    ("containers", "initial", "times"),
    [((), (), 0), (("a",), (), 1), (("a", "b"), ("i",), 3)],
    ids=["none", "one", "with-an-init-container"],
)
def test_overhead_counts_each_container_that_uses_the_claim(containers, initial, times):
    of = pod(containers=containers, initial=initial)
    found = node_allocatable.node_allocatable_statuses(of, [(claim("a"), None)], offering(a=of_137(**COSTS)))
    given = node_allocatable.with_node_allocatable_statuses(of, found)
    assert node_allocatable.resources_through_claims(given) == {"memory": 2**30}
    costs = node_allocatable.overhead_of_containers(given)
    assert costs == {name: {"memory": 2**28} for name in (*containers, *initial)}
    assert len(costs) == times


GIB = 2**30 * 10**9
SIDECAR = {"restartPolicy": "Always"}


def in_order(*initial, main="1Gi"):
    """Return a pod whose containers all use a claim of devices that cost a gibibyte for each of them."""
    containers = [
        {"name": name, "resources": {"requests": {"memory": memory}}, **more}
        for name, memory, more in (*initial, ("main", main, {}))
    ]
    cost = {"name": "memory", "perPod": "1Gi", "perContainer": "1Gi"}
    names = [each["name"] for each in containers]
    status = {"resourceClaimName": "c", "containers": names, "overhead": [cost]}
    content = {
        "metadata": {"name": "p", "uid": "p"},
        "spec": {"initContainers": containers[:-1], "containers": containers[-1:]},
        "status": {"nodeAllocatableResourceClaimStatuses": [status]},
    }
    return msgspec.convert(content, SchedulerPod)


@pytest.mark.parametrize(
    ("of", "older", "newer"),
    [
        pytest.param(in_order(), 3, 3, id="no-init-container"),
        pytest.param(in_order(("i", "0", {})), 4, 3, id="the-containers-need-more"),
        pytest.param(in_order(("i", "4Gi", {})), 7, 6, id="the-init-container-needs-more"),
        pytest.param(in_order(("i", "1Gi", {}), ("j", "1Gi", {})), 5, 3, id="one-after-the-other"),
        pytest.param(in_order(("s", "1Gi", SIDECAR)), 5, 5, id="a-sidecar-stays"),
        pytest.param(in_order(("s", "1Gi", SIDECAR), ("i", "4Gi", {})), 9, 8, id="an-init-container-beside-a-sidecar"),
    ],
)
def test_overhead_of_an_init_container_ends_with_it_since_1_38(of, older, newer):
    found = [pod_requests(of, release=release)["memory"] / GIB for release in (RELEASE_1_37, RELEASE_1_38)]
    assert found == [older, newer]
    assert pod_requests(of)["memory"] == older * GIB, "unknown counts as old, which promises nothing"


def test_the_status_is_kube_schedulers():
    device = of_137(cpu={"mapping": {"deviceMultiplier": "1500m"}}, **COSTS)
    found = node_allocatable.node_allocatable_statuses(pod(), [(claim("a"), None)], offering(a=device))
    assert msgspec.to_builtins(found) == [
        {
            "resourceClaimName": "c",
            "containers": ["main"],
            "mapping": [{"name": "cpu", "quantity": "1500m"}],
            "overhead": [{"name": "memory", "perPod": "1Gi", "perContainer": "256Mi"}],
        }
    ]


def test_a_new_allocation_counts_instead_of_the_claims():
    made = msgspec.convert(
        {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "b"}]}}, AllocationResult
    )
    devices = offering(a=of_137(**MEMORY_PER_DEVICE), b=of_137(**COSTS))
    (found,) = node_allocatable.node_allocatable_statuses(pod(), [(claim("a"), made)], devices)
    assert found.mapping is None


def test_capacity_of_which_nothing_is_known_ends_the_attempt():
    with pytest.raises(UnaccountableError, match="ConsumedCapacity is nil, but Capacity key 'cores' is set"):
        node_allocatable.node_allocatable_statuses(pod(), [(claim("a"), None)], offering(a=of_137(**CORES)))


@pytest.mark.parametrize(
    ("device", "listed", "expected"),
    [
        pytest.param(of_137(**MEMORY_PER_DEVICE), ("q",), True, id="of-another-pod"),
        pytest.param(of_137(**MEMORY_PER_DEVICE), ("q", "p"), False, id="listed"),
        pytest.param(of_137(**MEMORY_PER_DEVICE), (), False, id="of-nobody"),
        pytest.param(of_137(**COSTS), ("q",), False, id="overhead-is-for-each-pod"),
        pytest.param(of_136(**ONCE), ("q",), True, id="of-another-pod-in-1.36"),
        pytest.param({}, ("q",), False, id="no-resource-of-the-node"),
    ],
)
def test_a_claim_that_stands_for_resources_is_for_one_pod(device, listed, expected):
    assert (
        node_allocatable.is_reserved_for_another_pod(claim("a", listed=listed), pod(), offering(a=device)) is expected
    )


UNCOVERED = (
    "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests"
)


def bound(**status):
    found = {"metadata": {"name": "p", "uid": "p"}, "status": status}
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "overhead": {"cpu": "250m"},
    }
    return msgspec.convert(found | {"spec": spec}, SchedulerPod)


MAPPED = {"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "1500m"}]}
COST = {
    "resourceClaimName": "d",
    "containers": ["x", "y"],
    "overhead": [{"name": "memory", "perContainer": "1Gi"}],
}
OF_136 = {"resourceClaimName": "e", "resources": {"memory": "2Gi"}}


def test_what_a_bound_pod_has_through_its_claims_is_used():
    of = bound(nodeAllocatableResourceClaimStatuses=[MAPPED, COST, OF_136])
    assert pod_requests(of) == {"cpu": 2_750_000_000, "memory": 5 * 2**30 * 10**9, "pods": 10**9}


@pytest.mark.parametrize(
    ("whole", "through", "expected"),
    [
        pytest.param(None, Fraction(2), [], id="fits"),
        pytest.param(None, Fraction(3), ["Insufficient cpu"], id="too-much"),
        pytest.param("3", Fraction(2), [], id="the-pod-as-a-whole-covers-it"),
        pytest.param(
            "2500m",
            Fraction(2),
            [UNCOVERED],
            id="the-pod-as-a-whole-does-not-cover-it",
        ),
    ],
)
def test_a_node_has_enough_for_a_pod_and_what_it_has_through_its_claims(whole, through, expected):
    room = NodeInfo("n")
    room.observe(msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "3"}}}, SchedulerNode))
    resources = {} if whole is None else {"resources": {"requests": {"cpu": whole}}}
    device = of_137(cpu={"mapping": {"deviceMultiplier": str(through)}})
    of = pod(**resources)
    found = node_allocatable.node_allocatable_statuses(of, [(claim("a"), None)], offering(a=device))
    assert insufficient_with_claims(room, node_allocatable.with_node_allocatable_statuses(of, found)) == expected
