"""A pod with a RuntimeClass is simulated with what admission adds to it."""

import msgspec
import pytest

from dra.cli.kubectl.simulate.runtime_class_admission import RefusedRuntimeClassError, admitted
from dra.model.runtime_classes import RuntimeClass
from dra.model.scheduling import SchedulerPod
from tests.dra.cli.kubectl.simulate.manifests import manifest, using
from tests.dra.engine.diagnosis.cluster_states import node, snapshot

TOLERATION = {"key": "kata", "operator": "Exists"}


def runtime_class(name="kata", **more):
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "h"} | more


def pod(**spec):
    return msgspec.convert({"metadata": {"name": "p", "namespace": "ml", "uid": "p"}, "spec": spec}, SchedulerPod)


def admit(given, **more):
    return admitted(given, "kata", {"kata": msgspec.convert(runtime_class(**more), RuntimeClass)})


def test_admission_adds_overhead_node_selector_and_tolerations():
    scheduling = {"nodeSelector": {"runtime": "kata"}, "tolerations": [TOLERATION]}
    given = pod(nodeSelector={"zone": "a"}, tolerations=[TOLERATION])
    done = admit(given, overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    assert done.spec.overhead == {"cpu": "250m"}
    assert done.spec.node_selector == {"zone": "a", "runtime": "kata"}
    assert done.spec.tolerations == given.spec.tolerations


def test_a_class_without_any_of_that_leaves_the_pod_as_it_is():
    given = pod(nodeSelector={"zone": "a"})
    assert admit(given) == given


@pytest.mark.parametrize(
    ("given", "more", "why"),
    [
        pytest.param(
            pod(nodeSelector={"zone": "a"}),
            {"scheduling": {"nodeSelector": {"zone": "b"}}},
            "spec.nodeSelector[zone] is a, and b in RuntimeClass kata",
            id="another-node-selector",
        ),
        pytest.param(
            pod(overhead={"cpu": "1"}),
            {"overhead": {"podFixed": {"cpu": "2"}}},
            "spec.overhead is not that of RuntimeClass kata",
            id="another-overhead",
        ),
        pytest.param(
            pod(overhead={"cpu": "1"}), {}, "spec.overhead is not that of RuntimeClass kata", id="overhead-of-its-own"
        ),
    ],
)
def test_a_pod_that_contradicts_its_class_is_refused(given, more, why):
    with pytest.raises(RefusedRuntimeClassError) as caught:
        admit(given, **more)
    assert str(caught.value) == why


def test_an_equal_overhead_in_other_units_is_none_of_its_own():
    assert admit(pod(overhead={"cpu": "1000m"}), overhead={"podFixed": {"cpu": "1"}}).spec.overhead == {"cpu": "1"}


ASKING = manifest("Pod", "p", using(cpu=7, runtimeClassName="kata"))
HEAVY = runtime_class(overhead={"podFixed": {"cpu": "2"}})


def known(*classes):
    known_classes = msgspec.convert(list(classes), list[RuntimeClass])
    return msgspec.structs.replace(snapshot(nodes=[node("n1")]), runtime_classes=tuple(known_classes))


@pytest.mark.parametrize(
    ("manifests", "cluster", "verdict", "why"),
    [
        pytest.param([ASKING], known(runtime_class()), "Scheduled", "", id="of-the-cluster"),
        pytest.param([ASKING], known(HEAVY), "Pending", "Insufficient cpu", id="its-overhead-counts"),
        pytest.param([HEAVY, ASKING], known(), "Pending", "Insufficient cpu", id="of-the-manifests"),
        pytest.param(
            [HEAVY, ASKING], known(runtime_class()), "Pending", "Insufficient cpu", id="changed-by-a-manifest"
        ),
        pytest.param([ASKING], known(), "Refused", "RuntimeClass kata does not exist", id="unknown"),
        pytest.param([ASKING], None, "Undecided", "runtimeClassName is not simulated", id="classes-that-were-not-read"),
        pytest.param(
            [runtime_class("other"), ASKING], None, "Undecided", "runtimeClassName is not simulated", id="as-before"
        ),
    ],
)
def test_a_pod_gets_what_is_known_of_its_class(simulate, manifests, cluster, verdict, why):
    outcome = simulate(*manifests, cluster=cluster or snapshot(nodes=[node("n1")]))["p"]
    assert (outcome["verdict"], why in outcome["why"]) == (verdict, True), outcome["why"]
