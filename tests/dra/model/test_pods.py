import msgspec
import pytest

from dra.model.pods import POD_READY_TO_START_CONTAINERS, Pod, claim_names
from tests.dra.engine.examples import pod
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param({"claims": ()}, (), id="no-claims"),
        pytest.param({"claims": ("b", "a")}, ("b", "a"), id="in-the-order-of-the-spec"),
        pytest.param({"claims": ("a", "b", "a")}, ("a", "b"), id="each-once"),
        pytest.param({"claims": (), "templates": {"gpu": "x-gpu-1"}}, ("x-gpu-1",), id="generated"),
        pytest.param({"claims": (), "templates": {"gpu": ""}}, (), id="not-generated-yet"),
        pytest.param({"claims": (), "templates": {"gpu": None}}, (), id="none-is-needed"),
        pytest.param({"claims": ("a",), "templates": {"gpu": "x"}}, ("a", "x"), id="both"),
        pytest.param({"claims": ("x",), "templates": {"gpu": "x"}}, ("x",), id="generated-and-named"),
    ]
)
def test_which_claims_a_pod_uses(form, names):
    assert claim_names(pod("a", **form)) == names


def test_a_status_entry_for_another_entry_of_the_spec_names_nothing():
    decoded = msgspec.json.decode(
        b"""{"metadata": {"name": "a"}, "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
             "status": {"resourceClaimStatuses": [{"name": "other", "resourceClaimName": "x"}]}}""",
        type=Pod,
    )
    assert claim_names(decoded) == ()


@pytest.mark.parametrize(
    ("phase", "terminal"),
    [("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)],
)
def test_a_pod_has_ended_when_the_kubelet_says_so(phase, terminal):
    assert pod("a", phase=phase).terminal is terminal


def test_conditions_are_found_by_type():
    found = pod("a", unschedulable="no node", ready="12:00")
    assert found.condition(POD_READY_TO_START_CONTAINERS).last_transition_time == "12:00"
    assert found.condition("Initialized") is None
    assert pod("a").condition(POD_READY_TO_START_CONTAINERS) is None


def test_what_nobody_reads_is_skipped_and_null_is_nothing():
    decoded = msgspec.json.decode(
        b"""{"kind": "Pod", "metadata": {"name": "a", "managedFields": [{"manager": "kubelet"}], "labels": null},
             "spec": {"nodeName": "n1", "volumes": null, "containers": [{"name": "main"}], "schedulingGates": null},
             "status": {"phase": "Running", "conditions": null, "hostIP": "10.0.0.1"}}""",
        type=Pod,
    )
    assert (decoded.spec.node_name, decoded.gates, decoded.metadata.annotation("x")) == ("n1", (), None)
