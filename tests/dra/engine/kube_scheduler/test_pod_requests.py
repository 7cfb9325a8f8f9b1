from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.kube_scheduler import pod_requests
from dra.model import quantities
from dra.model.quantities import NANOS_PER_UNIT, MalformedAmountsError
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.reservations.examples import of
from tests.violations import for_each_case


def requests(cpu, **more):
    return {"resources": {"requests": {"cpu": cpu}}} | more


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [requests("1"), requests("500m")]}, "1500m", id="sum-of-containers"),
        pytest.param({"containers": [requests("1")], "initContainers": [requests("3")]}, "3", id="an-init-container"),
        pytest.param(
            {"containers": [requests("1")], "initContainers": [requests("2", restartPolicy="Always"), requests("2")]},
            "4",
            id="sidecars-run-beside-those-after-them",
        ),
        pytest.param(
            {"containers": [requests("2")], "initContainers": [requests("1"), requests("2", restartPolicy="Always")]},
            "4",
            id="and-beside-the-containers",
        ),
        pytest.param(
            {"containers": [requests("1")], "resources": {"requests": {"cpu": "5"}}}, "5", id="what-the-pod-says-wins"
        ),
        pytest.param({"containers": [requests("1")], "overhead": {"cpu": "100m"}}, "1100m", id="overhead-comes-on-top"),
    ],
)
def test_what_a_pod_takes(spec, cpu):
    assert pod_requests.template_requests({"spec": spec}) == of(cpu)
    assert pod_requests.pod_requests(msgspec.convert({"metadata": {}, "spec": spec}, SchedulerPod)) == {
        **of(cpu),
        quantities.PODS: NANOS_PER_UNIT,
    }


def has(actual, allocated=None, *, name="c"):
    told = {"name": name, "resources": {"requests": {"cpu": actual}}}
    return told | ({"allocatedResources": {"cpu": allocated}} if allocated else {})


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
ONE_OF_2 = {"containers": [requests("2", name="c")]}
SIDECAR_OF_2 = {
    "containers": [requests("1", name="m")],
    "initContainers": [requests("2", name="c", restartPolicy="Always")],
}


@for_each_case(
    [
        pytest.param(ONE_OF_2, {"containerStatuses": [has("4", "2")]}, "4", id="has-more-until-it-is-taken-back"),
        pytest.param(ONE_OF_2, {"containerStatuses": [has("1", "1")]}, "2", id="is-to-have-more"),
        pytest.param(ONE_OF_2, {"containerStatuses": [has("1", "3")]}, "3", id="was-promised-more"),
        pytest.param(
            ONE_OF_2, {"containerStatuses": [has("1", "1")], "conditions": DEFERRED}, "2", id="has-to-wait-for-more"
        ),
        pytest.param(
            ONE_OF_2, {"containerStatuses": [has("1", "1")], "conditions": INFEASIBLE}, "1", id="never-gets-more"
        ),
        pytest.param(ONE_OF_2, {"containerStatuses": [{"name": "c"}]}, "2", id="its-kubelet-does-not-tell"),
        pytest.param(ONE_OF_2, {"containerStatuses": [has("9", name="other")]}, "2", id="another-container"),
        pytest.param(SIDECAR_OF_2, {"initContainerStatuses": [has("4")]}, "5", id="a-sidecar-too"),
        pytest.param(
            {"containers": [requests("1", name="m")], "initContainers": [requests("2", name="c")]},
            {"initContainerStatuses": [has("4")]},
            "2",
            id="an-init-container-cannot-be-resized",
        ),
        pytest.param(
            {"containers": [requests("1")], "resources": {"requests": {"cpu": "5"}}},
            {"resources": {"requests": {"cpu": "7"}}},
            "7",
            id="the-pod-as-a-whole",
        ),
    ]
)
def test_what_a_pod_takes_that_is_resized_in_place(spec, status, cpu):
    """As kube-scheduler counts it: what a kubelet has not taken back yet is nobody else's."""
    pod = msgspec.convert({"metadata": {}, "spec": spec, "status": status}, SchedulerPod)
    assert pod_requests.pod_requests(pod)["cpu"] == of(cpu)["cpu"]


def test_a_template_without_requests_asks_for_its_limits_as_a_pod_would():
    spec = {"containers": [{"resources": {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 0.5}}}]}
    assert pod_requests.template_requests({"spec": spec}) == of("500m", memory="1Gi")


@pytest.mark.parametrize(
    ("containers", "amounts"),
    [
        pytest.param([{}, {}], of(4), id="where-no-container-asks"),
        pytest.param([requests("1"), {}], of(1), id="not-where-a-container-asks"),
    ],
)
def test_the_limit_of_a_whole_pod_stands_for_its_request(containers, amounts):
    spec = {"containers": containers, "resources": {"limits": {"cpu": "4"}}}
    assert pod_requests.template_requests({"spec": spec}) == amounts


def test_amounts_are_written_in_the_units_of_the_template_be_they_of_requests_or_of_limits():
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": 2, "memory": "1024Mi"}}
    template = {"spec": {"containers": [{}, {"resources": resources}, requests("1")]}}
    assert pod_requests.template_quantities(template) == {"cpu": "500m", "memory": "1024Mi"}


@for_each_case(
    [
        pytest.param({}, "spec.template.spec: must be a pod's spec", id="no-spec"),
        pytest.param({"spec": {"containers": {}}}, "spec.template.spec.containers: must be a list", id="no-list"),
        pytest.param(
            {"spec": {"containers": [1]}}, "spec.template.spec.containers[0]: must be a container", id="no-object"
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "two"}}}]}},
            "spec.template.spec.containers[0].resources.requests.cpu: 'two' is not a quantity",
            id="no-quantity",
        ),
        pytest.param(
            {"spec": {"initContainers": [{"resources": {"requests": {"cpu": "-1"}}}]}},
            "spec.template.spec.initContainers[0].resources.requests.cpu: -1 is negative",
            id="negative",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"limits": []}}]}},
            "spec.template.spec.containers[0].resources.limits: must be an object",
            id="limits",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": 1}]}},
            "spec.template.spec.containers[0].resources: must be",
            id="resources",
        ),
        pytest.param({"spec": {"overhead": {"cpu": None}}}, "spec.template.spec.overhead.cpu: must be", id="overhead"),
    ]
)
def test_a_template_that_cannot_be_read_is_refused_with_the_field_named(template, complaint):
    with pytest.raises(MalformedAmountsError) as refused:
        pod_requests.template_requests(template)
    assert str(refused.value).startswith(complaint)


@for_each_case(
    [
        pytest.param("0.5", "1", "500m", id="milli"),
        pytest.param("2000m", "1", "2", id="whole"),
        pytest.param("4000", "1", "4k", id="thousands"),
        pytest.param("1Gi", "1Gi", "1Gi", id="binary-stays-binary"),
        pytest.param("1536Mi", "1Gi", "1536Mi", id="greatest-unit-that-is-exact"),
        pytest.param("1Gi", "1G", "1073741824", id="decimal-stays-decimal"),
        pytest.param("0.5", "1Gi", "500m", id="no-binary-fractions"),
        pytest.param("0", "1Gi", "0", id="nothing"),
        pytest.param("1n", "1", "1n", id="the-least"),
    ]
)
def test_amounts_are_printed_as_kubernetes_does(text, like, printed):
    assert quantities.format_quantity(quantities.to_nanos(text), like=like) == printed


@given(st.integers(1, 10**24), st.sampled_from(["1", "1Gi"]))
def test_what_is_printed_is_worth_the_same(amount, like):
    assert quantities.parse(quantities.format_quantity(amount, like=like)) == Fraction(amount, NANOS_PER_UNIT)
