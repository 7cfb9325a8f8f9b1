"""The texts about pods that must not be evicted, and what a pod's annotation overrules."""

import pytest

from dra.api.migration.model import MigrationMode
from dra.engine.migration.evictability import refusal
from tests.dra.engine.migration.examples import at, limits, pod
from tests.violations import for_each_case

RESERVATION, DIRECTLY = MigrationMode.RESERVATION_FIRST, MigrationMode.EVICT_DIRECTLY
COST = "scheduling.koordinator.sh/eviction-cost"
EVICT = {"descheduler.alpha.kubernetes.io/evict": "true"}
MIRROR = {"kubernetes.io/config.mirror": "1a2b"}
CRITICAL = {"priority": 2_000_000_000}
LOCAL = {"volumes": [{"hostPath": {"path": "/data"}}]}


def annotated(annotations, **more):
    return pod("a", metadata={"annotations": annotations}, **more)


@for_each_case(
    [
        pytest.param(pod("a"), {}, RESERVATION, "", id="may-be-evicted"),
        pytest.param(
            pod("a", metadata={"deletionTimestamp": at(0)}),
            {},
            RESERVATION,
            "pod ns/a: is being deleted already",
            id="terminating",
        ),
        pytest.param(
            annotated({COST: "2147483647"}),
            {},
            RESERVATION,
            f"pod ns/a: {COST} is 2147483647, which forbids the eviction",
            id="greatest-cost",
        ),
        pytest.param(
            annotated(MIRROR),
            {},
            RESERVATION,
            "pod ns/a: is a static pod of the kubelet; remove its manifest from the node instead",
            id="static",
        ),
        pytest.param(annotated({"kubernetes.io/config.source": "api"}), {}, RESERVATION, "", id="from-the-api"),
        pytest.param(
            pod("a", kind="DaemonSet", owner="agent"),
            {},
            RESERVATION,
            "pod ns/a: belongs to DaemonSet agent, which would run the pod on the same node again",
            id="daemonset",
        ),
        pytest.param(
            pod("a", owner=""),
            {},
            DIRECTLY,
            "pod ns/a: has no controller, so no pod would replace it (evictAllBarePods is false)",
            id="bare",
        ),
        pytest.param(
            pod("a", owner="", status={"phase": "Failed"}),
            {"evictFailedBarePods": True},
            DIRECTLY,
            "",
            id="failed-bare-pod",
        ),
        pytest.param(
            pod("a", spec=CRITICAL),
            {},
            RESERVATION,
            "pod ns/a: is critical for the system (evictSystemCriticalPods is false)",
            id="critical",
        ),
        pytest.param(
            pod("a", spec={"priorityClassName": "system-node-critical"}),
            {},
            RESERVATION,
            "pod ns/a: is critical for the system (evictSystemCriticalPods is false)",
            id="critical-by-class",
        ),
        pytest.param(pod("a", spec=CRITICAL), {"evictSystemCriticalPods": True}, RESERVATION, "", id="critical-too"),
        pytest.param(
            pod("a", spec={"priority": 7}),
            {"priorityThreshold": 5},
            RESERVATION,
            "pod ns/a: priority 7 is not below priorityThreshold 5",
            id="priority-threshold",
        ),
        pytest.param(
            pod("a", spec=LOCAL),
            {},
            RESERVATION,
            "pod ns/a: would lose the data in its emptyDir or hostPath volumes (evictLocalStoragePods is false)",
            id="local-storage",
        ),
        pytest.param(
            pod("a", spec={"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}),
            {"ignorePvcPods": True},
            RESERVATION,
            "pod ns/a: uses persistent volume claims (ignorePvcPods is true)",
            id="volume-claims",
        ),
        pytest.param(
            pod("a", spec={"volumes": [{"ephemeral": {"volumeClaimTemplate": {}}}]}),
            {"ignorePvcPods": True},
            RESERVATION,
            "pod ns/a: uses persistent volume claims (ignorePvcPods is true)",
            id="generic-ephemeral-volumes-are-claims",
        ),
        pytest.param(
            pod("a", spec={"volumes": [{"emptyDir": {"medium": "Memory"}}]}),
            {},
            RESERVATION,
            "pod ns/a: would lose the data in its emptyDir or hostPath volumes (evictLocalStoragePods is false)",
            id="memory-is-local-storage",
        ),
        pytest.param(
            pod("a", spec={"priority": 5000}),
            {"priorityThreshold": 1000, "evictSystemCriticalPods": True},
            RESERVATION,
            "pod ns/a: priority 5000 is not below priorityThreshold 1000",
            id="the-threshold-stays-when-critical-pods-may-go",
        ),
        pytest.param(
            pod("a"),
            {"labelSelector": {"x": "y"}},
            RESERVATION,
            "pod ns/a: its labels do not match labelSelector",
            id="labels",
        ),
        pytest.param(
            pod("a"),
            {"namespaces": {"exclude": ["ns"]}},
            RESERVATION,
            "pod ns/a: pods of namespace ns are not migrated (namespaces)",
            id="namespace",
        ),
    ],
)
def test_why_a_pod_must_not_be_evicted(found, args, mode, text):
    assert refusal(found, args=limits(**args), mode=mode) == text


@for_each_case(
    [
        pytest.param(annotated(EVICT, kind="DaemonSet"), {}, True, id="pods-of-daemonsets-come-back"),
        pytest.param(annotated(EVICT, spec=CRITICAL), {}, True, id="never-critical-pods"),
        pytest.param(
            annotated({"descheduler.alpha.kubernetes.io/evict": "false"}, spec=CRITICAL), {}, True, id="critical-false"
        ),
        pytest.param(
            annotated(EVICT, spec=CRITICAL), {"evictSystemCriticalPods": True}, False, id="critical-as-configured"
        ),
        pytest.param(annotated(EVICT, spec={"priority": 7}), {"priorityThreshold": 5}, False, id="priority-threshold"),
        pytest.param(annotated(EVICT, spec=LOCAL), {}, False, id="local-storage"),
        pytest.param(annotated(EVICT), {"namespaces": {"exclude": ["ns"]}}, False, id="namespace"),
        pytest.param(annotated(EVICT | MIRROR), {}, True, id="static-pods-come-back"),
        pytest.param(annotated(EVICT | {COST: "2147483647"}), {}, True, id="greatest-cost"),
    ]
)
def test_the_annotation_overrules_what_is_a_matter_of_choice(found, args, refused):
    assert bool(refusal(found, args=limits(**args), mode=RESERVATION)) is refused


@pytest.mark.parametrize(
    ("found", "args", "mode", "refused"),
    [
        pytest.param(pod("a", node="", spec=LOCAL), {}, RESERVATION, False, id="nothing-is-lost"),
        pytest.param(pod("a", node="", spec=LOCAL), {}, DIRECTLY, True, id="evicted-directly"),
        pytest.param(pod("a", node=""), {"namespaces": {"exclude": ["ns"]}}, RESERVATION, True, id="out-of-scope"),
    ],
)
def test_only_the_scope_concerns_pods_that_no_node_runs(found, args, mode, refused):
    assert bool(refusal(found, args=limits(**args), mode=mode)) is refused
