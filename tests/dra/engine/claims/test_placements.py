"""Where pods could run that wait for an allocated claim: asked of the engine's own allocator."""

from datetime import UTC, datetime

import msgspec
import pytest

from dra.engine.allocator import ConsumedCapacityCollection, UnsatisfiableError
from dra.engine.claims.placements import CLAIM_UNAVAILABLE, ClusterSnapshot, PlacementSearch
from dra.engine.devices.ledger import Holder, Ledger, allocated_devices
from dra.engine.devices.taints import TaintIndex
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model import quantities
from dra.model.claims import AllocationResult, ResourceClaimStatus
from dra.model.device_classes import DeviceClass, DeviceClassSpec
from dra.model.meta import ObjectMeta, Uid
from dra.model.nodes import NodeSelector
from dra.model.references import ConsumerReference
from dra.model.scheduling import FullSchedulerPod, SchedulerNode, SchedulerPod
from dra.model.slices import ResourceSliceTaints
from dra.model.taints import DeviceTaint
from tests.dra.engine.allocator.strategies import CLASSES, DRIVER, claim, device, exactly, inventory, slice_of
from tests.violations import for_each_case

NODES = ("n1", "n2", "n3")
NOW = 100.0
ONE = quantities.to_nanos("1")


def own(node, *devices, **known):
    """The slice of a node's own devices."""
    return slice_of(*devices, name=f"s-{node}", pool=node, node_name=node, **known)


def offered(**numbers):
    """Slices with so many devices on nodes: gpu-0, gpu-1 ... each."""
    return [own(node, *(device(f"gpu-{i}") for i in range(number))) for node, number in numbers.items()]


def allocated(*requests, node="n1", device="gpu-0", name="c"):
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    content = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
    }
    status = ResourceClaimStatus(allocation=msgspec.convert(content, AllocationResult))
    return msgspec.structs.replace(claim(*(requests or (exactly(),)), name=name), status=status)


def pod(name="a", *, cpu="1", text="", claims=("c",), **spec):
    entries = [{"name": f"by-{each}", "resourceClaimName": each} for each in claims]
    verdict = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    content = {
        "metadata": {"name": name, "namespace": "ml", "uid": name},
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}], "resourceClaims": entries} | spec,
        "status": {"conditions": [verdict]},
    }
    return msgspec.convert(content, FullSchedulerPod)


def host(name, *, taints=(), cordoned=False, ready=True, deleting=False):
    content = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"unschedulable": cordoned, "taints": [{"key": key, "effect": "NoExecute"} for key in taints]},
        "status": {
            "allocatable": {"cpu": "4", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }
    if deleting:
        content["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"
    return msgspec.convert(content, SchedulerNode)


def filler(node, *, cpu="4", deleting=False, phase="Running"):
    content = {
        "metadata": {"name": f"on-{node}", "uid": f"on-{node}"},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": phase},
    }
    if deleting:
        content["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"
    return msgspec.convert(content, SchedulerPod)


def asked(*pods, of=None, slices=None, hosts=None, full=("n1",), others=(), tainted=(), classes=CLASSES, **known):
    """What is found of the pods: here, elsewhere or nowhere; nodes in ``full`` have no CPU left.

    ``not_ready``: nodes that cannot take pods; ``leaving``: whether the pods that fill nodes are being deleted.
    """
    not_ready, leaving = known.get("not_ready", ()), known.get("leaving", False)
    of = allocated() if of is None else of
    ledger = Ledger()
    for each in (of, *others):
        if each.status.allocation is not None:
            holder = Holder(kind="claim", key=each.metadata.key, uid=each.metadata.uid)
            ledger.hold(holder, allocated_devices(each.status.allocation))
    taints = TaintIndex()
    for each in tainted:
        taints.observe_slice(each)
    taints.slices_known()
    offers = inventory(*(slices if slices is not None else offered(n1=1, n2=1)))
    snapshot = ClusterSnapshot({}, offers, classes, ledger, ConsumedCapacityCollection(), taints=taints)
    for each in hosts if hosts is not None else [host(name) for name in NODES]:
        snapshot.observe_node(each)
    snapshot.node_names.update(not_ready)
    by_key = {each.metadata.key: each for each in (of, *others)}
    search = PlacementSearch(of, pods or [pod()], snapshot=snapshot, claim_of=by_key.get)
    for _ in search.steps():
        pass
    names = search.nodes()
    for name in full:
        snapshot.observe_pod(filler(name, deleting=leaving))
    found = search.placements(at=NOW, read_at=NOW)
    assert found.allocation == of.status.allocation
    assert found.fit_here | found.fit_elsewhere <= found.pods
    assert bool(found.fit_here | found.fit_elsewhere) <= bool(names)
    return found


def verdict(found, name="a"):
    return "here" if name in found.fit_here else "elsewhere" if name in found.fit_elsewhere else "nowhere"


SPREAD = {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone", "maxSkew": 1}]}
SOFTLY = {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "zone", "maxSkew": 1}]}
ALONE = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}}
VOLUME = {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}


@for_each_case(
    [
        pytest.param({}, "elsewhere", id="another-node-has-a-device"),
        pytest.param({"slices": offered(n1=1)}, "nowhere", id="no-other-node-has-one"),
        pytest.param({"slices": offered(n1=2)}, "nowhere", id="another-device-of-the-full-node"),
        pytest.param({"full": ()}, "here", id="there-is-room-again"),
        pytest.param({"full": ("n1", "n2")}, "nowhere", id="all-are-full"),
        pytest.param(
            {"others": [allocated(node="n2", name="d")]}, "nowhere", id="somebody-else-has-the-device-of-the-other-node"
        ),
        pytest.param({"hosts": [host("n1", cordoned=True), host("n2")], "full": ()}, "elsewhere", id="cordoned"),
        pytest.param({"hosts": [host("n1", taints=["down"]), host("n2")], "full": ()}, "elsewhere", id="node-tainted"),
        pytest.param({"hosts": [host("n1"), host("n2", taints=["gold"])]}, "nowhere", id="not-tolerated-there"),
        pytest.param({"hosts": [host("n2")]}, "elsewhere", id="node-gone"),
        pytest.param({"slices": offered(n2=1), "full": ()}, "elsewhere", id="devices-gone"),
        pytest.param(
            {"slices": [own("n1", device("gpu-1")), *offered(n2=1)], "full": ("n2",)}, "elsewhere", id="device-replaced"
        ),
        pytest.param(
            {"slices": [own("n1", count=2), *offered(n2=1)], "full": ()}, "here", id="its-pool-is-being-updated"
        ),
    ]
)
def test_where_a_pod_could_run(case, expected):
    assert verdict(asked(**case)) == expected


@for_each_case(
    [
        pytest.param(pod(), "elsewhere", id="plain"),
        pytest.param(pod(cpu="5"), "nowhere", id="bigger-than-any-node"),
        pytest.param(pod(nodeSelector={"kubernetes.io/hostname": "n3"}), "nowhere", id="wants-a-node-without-devices"),
        pytest.param(pod(nodeSelector={"kubernetes.io/hostname": "n9"}), "nowhere", id="wants-no-node-there-is"),
        pytest.param(pod(claims=("c", "other")), "nowhere", id="another-of-its-claims-is-not-there"),
        pytest.param(pod(claims=("c", "d")), "nowhere", id="another-of-its-claims-is-allocated-here"),
        pytest.param(pod(claims=("c", "e")), "elsewhere", id="another-of-its-claims-is-allocated-there"),
        pytest.param(pod(**VOLUME), "nowhere", id="volumes-may-exclude-that-node"),
        pytest.param(pod(**SPREAD), "nowhere", id="topology-may-exclude-that-node"),
        pytest.param(pod(**ALONE), "nowhere", id="other-pods-may-exclude-that-node"),
        pytest.param(pod(**SOFTLY), "elsewhere", id="topology-that-excludes-nothing"),
        pytest.param(
            pod(text=f"1 {CLAIM_UNAVAILABLE}", **ALONE), "elsewhere", id="unless-the-scheduler-says-they-do-not"
        ),
    ]
)
def test_which_pods_could_run_elsewhere(of, expected):
    others = [allocated(node="n1", device="gpu-1", name="d"), allocated(node="n2", device="gpu-1", name="e")]
    assert verdict(asked(of, slices=offered(n1=2, n2=2), others=others)) == expected


@pytest.mark.parametrize(
    ("cpu", "expected"), [pytest.param("1", "elsewhere", id="fits"), pytest.param("5", "nowhere", id="does-not")]
)
def test_nodes_need_no_capacity_for_an_extended_resource_that_devices_stand_for(cpu, expected):
    spec = DeviceClassSpec(extended_resource_name="example.com/gpu")
    served = DeviceClass(metadata=ObjectMeta(name="served"), spec=spec)
    of = pod(containers=[{"resources": {"requests": {"cpu": cpu, "example.com/gpu": "1"}}}])
    assert verdict(asked(of, classes={**CLASSES, "served": served})) == expected


def test_nodes_need_no_capacity_for_the_implicit_resource_of_a_device_class():
    implicit = f"deviceclass.resource.kubernetes.io/{next(iter(CLASSES))}"
    of = pod(containers=[{"resources": {"requests": {"cpu": "1", implicit: "1"}}}])
    assert verdict(asked(of)) == "elsewhere"


def test_devices_with_binding_conditions_count():
    conditional = msgspec.structs.replace(device("gpu-0"), binding_conditions=["Attached"])
    assert verdict(asked(slices=[*offered(n1=1), own("n2", conditional)])) == "elsewhere"


@pytest.mark.parametrize(
    ("node", "full", "expected"),
    [
        pytest.param("n1", (), ("elsewhere", True), id="here"),
        pytest.param("n2", ("n1",), ("nowhere", False), id="there"),
    ],
)
def test_a_taint_that_ends_pods_is_heeded_on_both_sides(node, full, expected):
    taint = DeviceTaint(key="broken", effect="NoExecute", time_added=datetime(2026, 11, 20, tzinfo=UTC))
    content = msgspec.to_builtins(own(node, msgspec.structs.replace(device("gpu-0"), taints=[taint])))
    found = asked(tainted=[msgspec.convert(content, ResourceSliceTaints)], full=full)
    assert (verdict(found), bool(found.lost_device)) == expected


def test_pods_that_are_alike_are_looked_at_once_and_told_each():
    found = asked(pod("a"), pod("b"), pod("c", cpu="5"))
    assert (found.fit_elsewhere, found.pods) == ({"a", "b"}, {"a", "b", "c"})


def test_what_the_nodes_of_the_allocation_lack_is_room_or_they_do_not_suit():
    assert asked().only_lacks_room
    assert not asked(hosts=[host("n1", cordoned=True), host("n2")]).only_lacks_room


def test_a_claim_that_cannot_be_read_is_no_answer():
    with pytest.raises(UnsatisfiableError):
        asked(of=allocated(exactly(cls="unheard-of")))


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param((), "elsewhere", id="suits"),
        pytest.param((own("n3", device("gpu-0")),), "nowhere", id="fails-on-a-device-of-any-node"),
    ],
)
def test_where_a_selector(there, expected):
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].numa == 1'}}
    of = allocated(exactly(selectors=[selector]))
    assert verdict(asked(of=of, slices=[*(own(n, device("gpu-0", numa=1)) for n in ("n1", "n2")), *there])) == expected


def costing(cpu):
    """A device that costs each pod so much of its node."""
    overhead = {"cpu": {"overhead": {"perPod": cpu}}}
    return msgspec.structs.replace(device("gpu-0"), node_allocatable_resources=overhead)


@pytest.mark.parametrize(
    ("there", "full", "expected"),
    [
        pytest.param([own("n2", costing("3"))], ("n1",), "elsewhere", id="there-is-enough-elsewhere"),
        pytest.param([own("n2", costing("3500m"))], ("n1",), "nowhere", id="there-is-not-enough-elsewhere"),
        pytest.param([own("n1", costing("3")), own("n2", device("gpu-0"))], (), "here", id="there-is-enough-here"),
        pytest.param(
            [own("n1", costing("3500m")), own("n2", device("gpu-0"))], (), "elsewhere", id="there-is-not-enough-here"
        ),
        pytest.param(
            [own("n1", costing("3500m")), own("n2", costing("3500m"))], (), "nowhere", id="there-is-not-enough-anywhere"
        ),
    ],
)
def test_what_devices_cost_of_their_node_counts(there, full, expected):
    slices = there if len(there) > 1 else [*offered(n1=1), *there]
    assert verdict(asked(slices=slices, full=full)) == expected


def test_a_pod_waits_for_a_claim_of_one_pod_that_another_has():
    mapping = {"cpu": {"mapping": {"deviceMultiplier": "1"}}}
    mapped = msgspec.structs.replace(device("gpu-0"), node_allocatable_resources=mapping)
    of = allocated()
    entry = ConsumerReference(resource="pods", name="b", uid="b")
    of = msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, reserved_for=[entry]))
    found = asked(pod("a"), pod("b"), of=of, slices=[own("n1", mapped), *offered(n2=1)])
    assert (verdict(found, "a"), verdict(found, "b")) == ("nowhere", "elsewhere")


# Nominations


def by_label(node):
    """A claim whose allocation names no node."""
    of = allocated(node=node)
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
    selector = msgspec.convert(terms, NodeSelector)
    allocation = msgspec.structs.replace(of.status.allocation, node_selector=selector)
    return msgspec.structs.replace(of, status=ResourceClaimStatus(allocation=allocation))


@for_each_case(
    [
        pytest.param("n1", {}, True, id="full"),
        pytest.param("n1", {"full": ()}, False, id="has-room"),
        pytest.param("n1", {"leaving": True}, False, id="its-pods-are-being-deleted"),
        pytest.param("n1", {"hosts": [host("n1", cordoned=True), host("n2")]}, False, id="cordoned"),
        pytest.param("n1", {"hosts": [host("n2")], "not_ready": ("n1",)}, False, id="not-ready"),
        pytest.param("n1", {"hosts": [host("n2")]}, True, id="deleted"),
        pytest.param("n2", {}, True, id="the-allocation-names-another-node"),
        pytest.param("n2", {"of": by_label("n1")}, False, id="the-allocation-names-no-node"),
        pytest.param("n9", {"of": by_label("n1")}, True, id="no-such-node"),
    ]
)
def test_on_which_nodes_a_nominated_pod_cannot_be_bound(node, case, unbindable):
    nominated, other = pod(), pod("b")
    status = msgspec.structs.replace(nominated.status, nominated_node_name=node)
    found = asked(msgspec.structs.replace(nominated, status=status), other, **case)
    assert found.unbindable_nominations == (frozenset({("a", node)}) if unbindable else frozenset())


# The snapshot


def snapshot_of(*hosts):
    snapshot = ClusterSnapshot({}, inventory(), CLASSES, Ledger(), ConsumedCapacityCollection())
    for each in hosts:
        snapshot.observe_node(each)
    return snapshot


@pytest.mark.parametrize(
    ("found", "takes_pods"),
    [
        pytest.param(host("n1"), True, id="ready"),
        pytest.param(host("n1", ready=False), False, id="not-ready"),
        pytest.param(host("n1", deleting=True), False, id="being-deleted"),
    ],
)
def test_a_node_exists_even_if_it_takes_no_pods(found, takes_pods):
    snapshot = snapshot_of(found)
    assert (snapshot.node_names, "n1" in snapshot.node_infos) == ({"n1"}, takes_pods)


@pytest.mark.parametrize(
    ("found", "charged", "making_room"),
    [
        pytest.param(filler("n1"), True, False, id="runs"),
        pytest.param(filler("n1", deleting=True), True, True, id="being-deleted"),
        pytest.param(filler("n1", phase="Succeeded"), False, False, id="ended"),
        pytest.param(filler("n2"), False, False, id="on-a-node-that-takes-no-pods"),
    ],
)
def test_pods_take_room_on_their_nodes(found, charged, making_room):
    snapshot = snapshot_of(host("n1"))
    snapshot.observe_pod(found)
    assert bool(snapshot.node_infos["n1"].pods) is charged
    assert snapshot.making_room == ({found.metadata.uid} if making_room else set())


@pytest.mark.parametrize(
    ("consumers", "held"),
    [
        pytest.param((), {"cpu": 3 * ONE, "pods": ONE}, id="unused"),
        pytest.param(("on-n1",), {"cpu": ONE}, id="partly-used"),
        pytest.param(("elsewhere",), {"cpu": 3 * ONE, "pods": ONE}, id="its-consumer-is-not-on-the-node"),
    ],
)
def test_a_reservation_takes_the_room_that_its_consumers_leave(consumers, held):
    snapshot = snapshot_of(host("n1"))
    snapshot.observe_pod(filler("n1", cpu="2"))
    amounts, owners = {"cpu": 3 * ONE, "pods": ONE}, frozenset(consumers)
    reservation = ReservationInfo(name="r", uid=Uid("uid-r"), allocatable=amounts, node="n1", current_owners=owners)
    snapshot.observe_reservation(reservation)
    assert snapshot.node_infos["n1"].pods["uid-r"] == held
    assert snapshot.making_room == {"uid-r"}
