"""The pods that DefaultEvictor protects, whichever plugin names them."""

import msgspec
import pytest

from dra.api.descheduler.evictor_args import DefaultEvictorArgs
from dra.engine.descheduling.evictor_filter import DefaultEvictorFilter
from dra.engine.descheduling.round import Profile
from dra.model.volumes import PersistentVolume, PersistentVolumeClaim
from tests.dra.engine.descheduling.rounds import ARGS, Naming, SlotSnapshot, evicted, play, pod, profile
from tests.dra.engine.migration.examples import NOW, at, budget, job
from tests.violations import for_each_case

EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NONE = {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}}
CRITICAL = {"priority": 2_000_000_000}
LOCAL = {"volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}]}
CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
EPHEMERAL = {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]}


def args(**given):
    return DefaultEvictorArgs.model_validate(given)


def refusal(found, given=None, **objects):
    return DefaultEvictorFilter().filter(found, SlotSnapshot([found], slots={"n2": 9}, **objects), args(**given or {}))


def annotated(annotation, **more):
    return pod("a", metadata={"annotations": {annotation: "false"}}, **more)


def protections(*, on=(), off=(), **more):
    return {"podProtections": {"extraEnabled": list(on), "defaultDisabled": list(off), **more}}


@for_each_case(
    [
        pytest.param(pod("a"), {}, "", id="a-plain-pod-may-go"),
        pytest.param(
            pod("a", metadata={"deletionTimestamp": at(0)}), {}, "pod ns/a: is being deleted", id="terminating"
        ),
        pytest.param(
            pod("a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
            {},
            "pod ns/a: is a static",
            id="mirror",
        ),
        pytest.param(pod("a", kind="DaemonSet"), {}, "pod ns/a: belongs to DaemonSet web", id="daemonset"),
        pytest.param(pod("a", kind="DaemonSet"), protections(off=["DaemonSetPods"]), "", id="daemonset-allowed"),
        pytest.param(pod("a", kind="DaemonSet"), {"evictDaemonSetPods": True}, "", id="daemonset-allowed-by-old-flag"),
        pytest.param(pod("a", spec=CRITICAL), {}, "pod ns/a: is critical for the system", id="critical"),
        pytest.param(pod("a", spec=CRITICAL), protections(off=["SystemCriticalPods"]), "", id="critical-allowed"),
        pytest.param(pod("a", owner=""), {}, "pod ns/a: has no controller", id="bare"),
        pytest.param(
            pod("a", owner="", status={"phase": "Failed"}), {}, "pod ns/a: has no controller", id="failed-bare"
        ),
        pytest.param(
            pod("a", owner="", status={"phase": "Failed"}),
            protections(off=["FailedBarePods"]),
            "",
            id="failed-bare-allowed",
        ),
        pytest.param(
            pod("a", owner=""), protections(off=["FailedBarePods"]), "pod ns/a: has no controller", id="running-bare"
        ),
        pytest.param(pod("a", spec=LOCAL), {}, "pod ns/a: would lose the data", id="emptydir-in-memory"),
        pytest.param(pod("a", spec=LOCAL), protections(off=["PodsWithLocalStorage"]), "", id="local-storage-allowed"),
        pytest.param(pod("a", spec=CLAIM), {}, "", id="claims-are-no-local-storage"),
        pytest.param(pod("a", spec=CLAIM), protections(on=["PodsWithPVC"]), "pod ns/a: uses persistent", id="claims"),
        pytest.param(
            pod("a", spec=EPHEMERAL),
            protections(on=["PodsWithPVC"]),
            "pod ns/a: uses persistent",
            id="ephemeral-claims",
        ),
        pytest.param(
            pod("a", spec=CLAIM), {"ignorePvcPods": True}, "pod ns/a: uses persistent", id="claims-by-old-flag"
        ),
        pytest.param(
            pod("a", spec={"resourceClaims": [{"name": "gpu"}]}), {}, "", id="resource-claims-only-on-request"
        ),
        pytest.param(
            pod("a", spec={"resourceClaims": [{"name": "gpu"}]}),
            protections(on=["PodsWithResourceClaims"]),
            "pod ns/a: uses resource claims",
            id="resource-claims",
        ),
        pytest.param(
            pod("a"), protections(on=["PodsWithoutPDB"]), "pod ns/a: no PodDisruptionBudget covers it", id="no-budget"
        ),
        pytest.param(pod("a"), {"labelSelector": {"matchLabels": {"x": "y"}}}, "pod ns/a: its labels", id="labels"),
        pytest.param(
            pod("a"),
            {"namespaceLabelSelector": {"matchLabels": {"x": "y"}}},
            "namespace ns: its labels",
            id="namespace",
        ),
        pytest.param(pod("a", metadata=PREFER_NONE), {}, "", id="no-eviction-preferred"),
        pytest.param(
            pod("a", metadata=PREFER_NONE),
            {"noEvictionPolicy": "Mandatory"},
            "pod ns/a: has descheduler",
            id="mandatory",
        ),
        pytest.param(
            pod("a", spec={"priority": 1000}),
            {"priorityThreshold": {"value": 1000}},
            "pod ns/a: priority 1000 is not below",
            id="vector-33-priority-1000-of-1000-stays",
        ),
        pytest.param(
            pod("a", spec={"priority": 999}),
            {"priorityThreshold": {"value": 1000}},
            "",
            id="vector-33-priority-999-goes",
        ),
        pytest.param(
            pod("a", spec={"priority": 5000}),
            {"priorityThreshold": {"value": 1000}, "evictSystemCriticalPods": True},
            "pod ns/a: priority 5000 is not below",
            id="the-threshold-stays-when-critical-pods-may-go",
        ),
        pytest.param(
            pod("a"),
            {"priorityThreshold": {"name": "high"}},
            "pod ns/a: stays while the value of PriorityClass high is unknown",
            id="threshold-of-an-unknown-class",
        ),
        pytest.param(
            pod("a", created=-59), {"minPodAge": "1m"}, "pod ns/a: started 59 s ago (minPodAge: 1m0s)", id="too-young"
        ),
        pytest.param(pod("a", created=-60), {"minPodAge": "1m"}, "", id="old-enough"),
        pytest.param(pod("a", created=5), {"minPodAge": "1s"}, "pod ns/a: started 0 s ago", id="from-the-future"),
        pytest.param(
            pod("a", status={"startTime": None}), {"minPodAge": "1m"}, "pod ns/a: has not started yet", id="not-started"
        ),
        pytest.param(
            pod("a", status={"startTime": "yesterday"}), {"minPodAge": "1m"}, "pod ns/a: has not started", id="no-time"
        ),
    ],
)
def test_what_the_default_evictor_protects(found, given, text):
    message = refusal(found, given)
    assert message.startswith(text)
    assert bool(message) is bool(text)


@for_each_case(
    [
        pytest.param(annotated(EVICT, spec=LOCAL), {}, "", id="local-storage"),
        pytest.param(annotated(EVICT, owner=""), {}, "", id="bare"),
        pytest.param(annotated(EVICT), protections(on=["PodsWithoutPDB"]), "", id="no-budget"),
        pytest.param(annotated(EVICT), {"minReplicas": 3}, "", id="replicas"),
        pytest.param(annotated(EVICT, spec=CRITICAL), {}, "pod ns/a: is critical", id="never-critical-pods"),
        pytest.param(annotated(EVICT, kind="DaemonSet"), {}, "pod ns/a: belongs to DaemonSet", id="never-daemonsets"),
        pytest.param(
            pod("a", metadata={"annotations": {EVICT: "", "kubernetes.io/config.mirror": "x"}}),
            {},
            "pod ns/a: is a static",
            id="never-static-pods",
        ),
    ]
)
def test_the_annotation_of_a_pod_lifts_only_what_is_a_matter_of_choice(found, given, text):
    message = refusal(found, given)
    assert message.startswith(text)
    assert bool(message) is bool(text)


def test_the_value_of_a_priority_class_is_looked_up():
    given = {"priorityThreshold": {"name": "high"}}
    high, low = (pod("a", spec={"priority": priority}) for priority in (100, 99))
    assert refusal(high, given, priority_classes={"high": 100}).startswith("pod ns/a: priority 100 is not below")
    assert refusal(low, given, priority_classes={"high": 100}) == ""


def test_a_pod_with_a_budget_may_go_where_pods_without_one_are_protected():
    covered = pod("a", metadata={"labels": {"app": "web"}})
    given = protections(on=["PodsWithoutPDB"])
    assert refusal(covered, given, disruption_budgets=(budget("b", allowed=0),)) == ""


def test_labels_of_the_namespace_decide():
    given = {"namespaceLabelSelector": {"matchLabels": {"team": "a"}}}
    assert refusal(pod("a"), given, namespaces={"ns": {"team": "a"}}) == ""
    assert refusal(pod("a"), given, namespaces={"ns": {"team": "b"}}) != ""


def claim(name="data", *, storage_class="fast", volume="pv"):
    content = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"volumeName": volume}}
    content["spec"]["storageClassName"] = storage_class
    return msgspec.convert(content, PersistentVolumeClaim)


def volume(*nodes):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]}
    terms = [{"matchFields": [field]} for field in term["matchFields"]]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    return msgspec.convert({"metadata": {"name": "pv"}, "spec": {"nodeAffinity": affinity}}, PersistentVolume)


@pytest.mark.parametrize(
    ("found", "claims", "text"),
    [
        pytest.param(pod("a", spec=CLAIM), (claim(),), "persistentvolumeclaim ns/data: StorageClass fast", id="class"),
        pytest.param(pod("a", spec=CLAIM), (claim(storage_class="slow"),), "", id="other-class"),
        pytest.param(pod("a", spec=CLAIM), (), "persistentvolumeclaim ns/data: its StorageClass is not", id="unknown"),
        pytest.param(
            pod("a", spec=EPHEMERAL),
            (claim("a-data"),),
            "persistentvolumeclaim ns/a-data: StorageClass",
            id="ephemeral",
        ),
    ],
)
def test_storage_classes_protect(found, claims, text):
    given = protections(on=["PodsWithPVC"], config={"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}})
    message = refusal(found, given, volume_claims=claims)
    assert message.startswith(text)
    assert bool(message) is bool(text)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        pytest.param(["n1"], "pod ns/a: volume pv can be mounted on node n1 alone", id="local-volume"),
        pytest.param(["n1", "n2"], "", id="zone"),
        pytest.param(["n1", "gone"], "pod ns/a: volume pv can be mounted on node n1 alone", id="other-node-is-gone"),
    ],
)
def test_a_volume_of_one_node_protects_its_pod_in_any_case(nodes, text):
    objects = {"volume_claims": (claim(),), "volumes": (volume(*nodes),)}
    assert refusal(pod("a", spec=CLAIM), protections(off=["PodsWithLocalStorage"]), **objects) == text


def replicas_round(pods, *, at_least, **more):
    named = Naming(*(each.metadata.name for each in pods))
    filters = ((DefaultEvictorFilter(), args(minReplicas=at_least)),)
    given = Profile(name="p", deschedule=((named, ARGS),), filters=filters)
    return evicted(play(pods, given, slots={"n2": 9}, **more)[0])


@for_each_case(
    [
        pytest.param([pod("a"), pod("b"), pod("c")], 2, 1, id="vector-34-two-of-three-stay"),
        pytest.param([pod("a")], 2, 0, id="one-of-at-least-two-stays"),
        pytest.param([pod("a"), pod("b")], 2, 0, id="two-of-two-stay"),
        pytest.param([pod("a"), pod("b")], 1, 2, id="a-minimum-of-1-is-none"),
        pytest.param(
            [pod("a"), pod("b"), pod("t", metadata={"deletionTimestamp": at(0)})], 2, 0, id="terminating-do-not-count"
        ),
        pytest.param([pod("a"), pod("b"), pod("f", status={"phase": "Failed"})], 2, 1, id="the-failed-one-may-go"),
        pytest.param([pod("a"), pod("b", owner="db"), pod("c", owner="db")], 2, 0, id="by-owner"),
        pytest.param([pod("a"), pod("b", namespace="x"), pod("c", namespace="x")], 2, 0, id="by-namespace"),
    ]
)
def test_the_owner_keeps_its_least_replicas(pods, at_least, gone):
    assert len(replicas_round(pods, at_least=at_least)) == gone


def test_pods_of_jobs_in_flight_count_as_gone_for_the_least_replicas():
    pods = [pod("a"), pod("b"), pod("c")]
    assert replicas_round(pods, at_least=2, jobs=(job("a"),)) == []


def test_a_protected_pod_is_told_in_the_round():
    given = Profile(name="p", deschedule=((Naming("a"), ARGS),), filters=((DefaultEvictorFilter(), args()),))
    result, _ = play([pod("a", spec=LOCAL)], given, slots={"n2": 1}, now=NOW)
    assert result.decisions[0].verdict.message == (
        "pod ns/a: would lose the data in its emptyDir or hostPath volumes (podProtections: PodsWithLocalStorage)"
    )
    assert profile(Naming("a")).filters == ()
