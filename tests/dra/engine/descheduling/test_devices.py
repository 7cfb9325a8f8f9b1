import msgspec
import pytest

from dra.model.claims import ResourceClaim
from dra.model.slices import ResourceSlice
from tests.dra.engine.descheduling.clusters import node, pod, reservation, snapshot
from tests.dra.engine.descheduling.gpu_nodes import CLASSES, DRIVER, cards, claim, gpu_pod, template

NO_DEVICES = "cannot allocate all claims"
NOT_ON_NODE = "resourceclaim not available on the node"
GPUS = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]


def gpu_cluster(nodes, pods=(), *, claims=(), **objects):
    """Return the snapshot of nodes with so many cards each; `pods` are pairs of a pod and its claim."""
    return snapshot(
        [node(name) for name in nodes],
        [each for each, _ in pods],
        claims=[*(each for _, each in pods), *claims],
        slices=[cards(name, count) for name, count in nodes.items() if count],
        device_classes=CLASSES,
        **objects,
    )


@pytest.mark.parametrize(
    ("nodes", "others", "reason"),
    [
        pytest.param({"n1": 2, "n2": 2}, [], "", id="free-cards"),
        pytest.param({"n1": 2, "n2": 1}, [], NO_DEVICES, id="too-few-cards"),
        pytest.param({"n1": 2, "n2": 0}, [], NO_DEVICES, id="no-cards"),
        pytest.param({"n1": 2, "n2": 2}, [gpu_pod("q", "n2", [1])], NO_DEVICES, id="one-card-is-taken"),
        pytest.param({"n1": 2, "n2": 3}, [gpu_pod("q", "n2", [1])], "", id="the-others-suffice"),
    ],
)
def test_the_replacement_needs_new_devices(nodes, others, reason):
    moving = gpu_pod("p", "n1", [0, 1])
    found = gpu_cluster(nodes, [moving, *others])
    assert found.unfit_reason(moving[0], "n2") == reason
    assert bool(found.fitting_node(moving[0])) is (not reason)
    assert found.unfit_reason(moving[0], "n1") == ""


def test_the_replacement_needs_new_devices_on_its_own_node_as_well_while_the_pod_runs():
    moving = gpu_pod("p", "n1", [0, 1])
    found = gpu_cluster({"n1": 2, "n2": 2}, [moving])
    other = gpu_pod("q", "", count=2)[0]
    assert found.unfit_reason(other, "n1") != ""


def test_the_template_says_what_the_next_claim_asks_for():
    moving = gpu_pod("p", "n1", [0])
    found = gpu_cluster({"n1": 2, "n2": 1}, [moving], claim_templates=[template("gpus", 2)])
    assert found.unfit_reason(moving[0], "n2") == NO_DEVICES


def test_held_devices_are_taken_for_the_next_pod():
    pods = [gpu_pod("p", "n1", [0, 1]), gpu_pod("q", "n1", [2, 3])]
    found = gpu_cluster({"n1": 4, "n2": 2}, pods)
    assert found.fitting_node(pods[0][0]) == "n2"
    found.move(pods[0][0], "n2")
    assert found.fitting_node(pods[1][0]) == ""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(claim("shared", on="n1", devices=[0]), NOT_ON_NODE, id="allocated-on-its-node"),
        pytest.param(claim("shared", on="n2", devices=[0]), "", id="allocated-on-the-other-node"),
        pytest.param(claim("shared", 2), "", id="not-allocated"),
        pytest.param(claim("shared", 3), NO_DEVICES, id="not-allocated-and-too-much"),
        pytest.param(claim("other"), 'resourceclaim "shared" not found', id="gone"),
    ],
)
def test_a_claim_that_is_named_exists_once(given, reason):
    moving = pod(resourceClaims=[{"name": "gpus", "resourceClaimName": "shared"}])
    found = gpu_cluster({"n1": 2, "n2": 2}, [(moving, given)])
    assert found.unfit_reason(moving, "n2") == reason


def without_models(found):
    devices = [msgspec.structs.replace(device, attributes=None) for device in found.spec.devices]
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, devices=devices))


@pytest.mark.parametrize(
    ("closed", "reason"),
    [
        pytest.param({}, "no such key: model", id="one-node-keeps-the-pod-from-all"),
        pytest.param({"unschedulable": True}, "", id="a-cordoned-node-is-not-asked"),
    ],
)
def test_a_pod_whose_replacement_would_be_given_up_fits_nowhere(closed, reason):
    moving = gpu_pod("p", "n1", [0], model="h100")
    found = snapshot(
        [node("n1"), node("n2"), node("n3", **closed)],
        [moving[0]],
        claims=[moving[1]],
        slices=[cards("n1", 1), cards("n2", 1), without_models(cards("n3", 1))],
        device_classes=CLASSES,
    )
    assert reason in found.unfit_reason(moving[0], "n2")
    assert found.fitting_node(moving[0]) == ("" if reason else "n2")


def test_a_device_class_that_is_missing_is_named():
    moving = gpu_pod("p", "n1", [0])
    found = snapshot([node("n1"), node("n2")], [moving[0]], claims=[moving[1]], slices=[cards("n2", 2)])
    assert found.unfit_reason(moving[0], "n2") == "request r: device class gpu does not exist"


def test_a_claim_of_which_nothing_is_known_keeps_its_pod():
    moving = pod(resourceClaims=GPUS)
    found = gpu_cluster({"n1": 2, "n2": 2}, [(moving, claim("other"))])
    assert found.unfit_reason(moving, "n2") == 'resourceclaim of entry "gpus" is not known'


def test_devices_that_a_reservation_holds_are_for_its_owners():
    template_of_pod = {
        "metadata": {"namespace": "ns"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "resourceClaims": GPUS},
    }
    held = reservation(on="n2", template=template_of_pod)
    of_reservation = claim("held", 2, on="n2", devices=[0, 1], holder="uid-r")
    owner, stranger = gpu_pod("p", "n1", [0, 1]), gpu_pod("q", "n1", [2, 3], owner="db")
    found = gpu_cluster({"n1": 4, "n2": 2}, [owner, stranger], claims=[of_reservation], reservations=[held])
    assert found.unfit_reason(owner[0], "n2") == ""
    assert found.unfit_reason(stranger[0], "n2") == NO_DEVICES


def test_places_for_all_pods_at_once_are_forgotten_after_the_answer():
    pods = [gpu_pod(f"p{i}", "n1", [i]) for i in range(3)]
    found = gpu_cluster({"n1": 4, "n2": 2, "n3": 1}, pods)
    asked = [each for each, _ in pods]
    assert sorted(found.places(asked)) == ["n2", "n2", "n3"]
    assert found.places(asked, among={"n2"}) == []
    assert sorted(found.places(asked)) == ["n2", "n2", "n3"]


def test_what_pods_hold_counts_as_free_once_they_have_gone():
    holders = [gpu_pod("p", "n1", [0]), gpu_pod("q", "n1", [1])]
    waiting = gpu_pod("w", count=2)
    found = gpu_cluster({"n1": 2}, [*holders, waiting])
    uids = [each.metadata.uid for each, _ in holders]
    assert found.unfit_reason(waiting[0], "n1", gone=uids) == ""
    assert found.unfit_reason(waiting[0], "n1", gone=uids[:1]) == NO_DEVICES
    assert found.unfit_reason(waiting[0], "n1") == NO_DEVICES
    assert (found.requested_devices(waiting[0]), found.held_devices(holders[0][0])) == (2, 1)


@pytest.mark.parametrize(
    ("there", "reason"), [pytest.param(1, "", id="free"), pytest.param(0, NO_DEVICES, id="no-devices")]
)
def test_devices_serve_the_extended_resource_of_the_replacement(there, reason):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}]}
    moving = pod("p", "n1", status={"extendedResourceClaimStatus": {"resourceClaimName": "own"}}, **spec)
    (served,) = CLASSES
    served = msgspec.structs.replace(
        served, spec=msgspec.structs.replace(served.spec, extended_resource_name="example.com/gpu")
    )
    found = snapshot(
        [node("n1"), node("n2")],
        [moving],
        claims=[claim("own", 1, on="n1", devices=[0], of=moving)],
        slices=[cards("n1", 1), *([cards("n2", there)] if there else [])],
        device_classes=[served],
    )
    assert found.unfit_reason(moving, "n2") == reason


def ranged(node):
    """Return the slice of a node whose card has 1 of memory, given in steps of 250m."""
    policy = {"default": "1", "validRange": {"min": "250m", "step": "250m", "max": "1"}}
    device = {
        "name": "gpu-0",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "1", "requestPolicy": policy}},
    }
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [device]}
    return msgspec.convert({"metadata": {"name": f"slice-{node}"}, "spec": spec}, ResourceSlice)


def sharing(name, node):
    """Return a pod that holds 500m of a card, and its claim."""
    given, held = gpu_pod(name, node, [0])
    content = msgspec.to_builtins(held)
    exactly = content["spec"]["devices"]["requests"][0]["exactly"]
    exactly["capacity"] = {"requests": {"memory": "500m"}}
    result = content["status"]["allocation"]["devices"]["results"][0]
    result |= {"shareID": f"{name}-share", "consumedCapacity": {"memory": "500m"}}
    return given, msgspec.convert(content, ResourceClaim)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        pytest.param("v1.37.1", NO_DEVICES, id="whole-numbers"),
        pytest.param("v1.38.0", "", id="fractions"),
        pytest.param("", NO_DEVICES, id="unknown-counts-as-old"),
    ],
)
def test_devices_are_allocated_as_the_version_of_the_server_does(server, reason):
    moving, other = sharing("p", "n1"), sharing("q", "n2")
    found = snapshot(
        [node("n1"), node("n2")],
        [moving[0], other[0]],
        claims=[moving[1], other[1]],
        slices=[ranged("n1"), ranged("n2")],
        device_classes=CLASSES,
        server=server,
    )
    assert found.unfit_reason(moving[0], "n2") == reason
