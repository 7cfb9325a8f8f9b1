from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.preflight import stock_controller
from dra.cli.kubectl.preflight.stock_controller import ManagedObject, StockControllerState
from dra.model.claims import ResourceClaim
from dra.model.pods import Pod
from tests.violations import for_each_case

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
OFF = "*,-resourceclaim-controller"


@pytest.mark.parametrize(
    ("controllers", "on"),
    [
        pytest.param("*", True, id="all"),
        pytest.param("*,bootstrapsigner,tokencleaner", True, id="kubeadm"),
        pytest.param("*,bootstrapsigner,tokencleaner,-resourceclaim-controller", False, id="switched-off"),
        pytest.param("-resourceclaim-controller,*", False, id="in-any-order"),
        pytest.param("job-controller", False, id="only-others"),
        pytest.param("resourceclaim-controller", True, id="only-it"),
    ],
)
def test_the_flag_is_read_as_the_controller_manager_does(controllers, on):
    assert stock_controller.is_enabled(controllers) == on


def test_a_local_plane_has_no_stock_controller_and_says_whose_claims_are():
    found = stock_controller.judge_local_plane({"controller": 7})
    assert (found.state, found.certainty) == (StockControllerState.OFF, "certain: reported by the plane")
    assert "pid 7" in found.detail
    assert stock_controller.judge_stock_controller(found, replace=True).state is CheckState.OK
    assert stock_controller.judge_stock_controller(found, replace=False).state is CheckState.OK
    assert stock_controller.judge_stock_controller(found, replace=False, back=True).state is CheckState.WARNING


def test_who_made_a_claim_is_not_certain_where_the_server_does_not_tell():
    assert stock_controller.judge_by_claim_creator("unknown", seconds=1).certainty.startswith("likely")
    assert (
        stock_controller.judge_by_claim_creator("kube-controller-manager", seconds=1).certainty
        == "certain: by a probe pod"
    )


def manager(name, *command):
    container = {"name": "kube-controller-manager", "command": ["kube-controller-manager", *command]}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], None, id="not-to-be-seen"),
        pytest.param([manager("a")], StockControllerState.ON, id="without-the-flag"),
        pytest.param([manager("a", f"--controllers={OFF}")], StockControllerState.OFF, id="off"),
        pytest.param([manager("a", "--controllers", OFF)], StockControllerState.OFF, id="two-words"),
        pytest.param(
            [manager("a", f"--controllers={OFF}"), manager("b")], StockControllerState.MIXED, id="one-forgotten"
        ),
        pytest.param([{"metadata": {"name": "x"}, "spec": {"containers": [{"name": "etcd"}]}}], None, id="others"),
    ],
)
def test_the_flags_of_visible_pods_are_certain(pods, expected):
    found = stock_controller.judge_by_flags(pods)
    assert (found and found.state) == expected
    assert found is None or "certain" in found.certainty


def claim(*uids, deleting=False, allocated=True):
    metadata = {"name": "c", "namespace": "ml", "uid": "claim"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-21T11:00:00Z"
    entries = [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]
    status = {"allocation": {}, "reservedFor": entries} if allocated else {}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


def pod(uid="p", *, ago=120, phase="Running"):
    bound = {"type": "PodScheduled", "status": "True"}
    bound["lastTransitionTime"] = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return msgspec.convert(
        {
            "metadata": {"name": uid, "namespace": "ml", "uid": uid},
            "spec": {"nodeName": "n1", "resourceClaims": [{"name": "d", "resourceClaimName": "c"}]},
            "status": {"phase": phase, "conditions": [bound]},
        },
        Pod,
    )


@for_each_case(
    [
        pytest.param(claim(), [pod()], True, id="bound-and-not-listed"),
        pytest.param(claim("p"), [pod()], False, id="listed"),
        pytest.param(claim(), [pod(ago=5)], False, id="bound-just-now"),
        pytest.param(claim(), [pod(phase="Succeeded")], False, id="ended"),
        pytest.param(claim(deleting=True), [pod()], False, id="a-claim-under-deletion-takes-nobody"),
        pytest.param(claim(allocated=False), [pod()], False, id="nothing-to-list-for"),
        pytest.param(claim(*map(str, range(256))), [pod()], False, id="full"),
    ]
)
def test_a_bound_pod_that_nobody_lists_tells_that_it_is_off(found, pods, off):
    sign = stock_controller.judge_by_unlisted_pods({("ml", "c"): found}, pods, now=NOW)
    assert (sign is not None and sign.state is StockControllerState.OFF) == off


def traced(*entries):
    fields = [{"manager": name, "time": when} for name, when in entries]
    return msgspec.convert({"metadata": {"namespace": "ml", "name": "c", "managedFields": fields}}, ManagedObject)


def test_a_fresh_trace_tells_that_it_is_on():
    fresh = stock_controller.judge_by_managed_fields(
        [traced(("kube-controller-manager", "2026-11-21T11:59:00Z"))], now=NOW
    )
    assert fresh.state is StockControllerState.ON
    assert "ml/c 60 s ago" in fresh.detail
    assert fresh.certainty.startswith("likely")


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(("kube-controller-manager", "2026-11-21T10:00:00Z"), id="long-ago"),
        pytest.param(("dra-reserve", "2026-11-21T11:59:00Z"), id="ours"),
        pytest.param(("kube-controller-manager", None), id="without-time"),
    ],
)
def test_other_traces_tell_nothing(entry):
    assert stock_controller.judge_by_managed_fields([traced(entry)], now=NOW) is None


def test_who_made_the_claim_of_the_trial_decides():
    assert (
        stock_controller.judge_by_claim_creator("kube-controller-manager", seconds=15).state is StockControllerState.ON
    )
    assert stock_controller.judge_by_claim_creator("k3s", seconds=15).state is StockControllerState.ON
    assert stock_controller.judge_by_claim_creator("dra-reserve", seconds=15).state is StockControllerState.OFF
    assert stock_controller.judge_by_claim_creator(None, seconds=15).state is StockControllerState.OFF


def test_who_made_a_claim_is_whoever_has_its_spec():
    shares = [
        {"manager": "kube-scheduler", "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": "kube-controller-manager", "fieldsV1": {"f:metadata": {}, "f:spec": {}}},
    ]
    assert msgspec.convert({"metadata": {"managedFields": shares}}, ManagedObject).creator == "kube-controller-manager"
    assert msgspec.convert({"metadata": {}}, ManagedObject).creator == "unknown"
