import pytest

from dra.api.reservations.model import parse_reservation
from dra.api.reservations.well_known import PAUSE_IMAGE
from dra.engine.reservations import placeholders
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.reservations.examples import reservation
from tests.violations import for_each_case

GPU = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}


def of(annotations=None, metadata=None, namespace=None, **spec):
    container = {"name": "a", "image": "b", "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": 1}}}
    template = {"spec": {"containers": [container], **spec}}
    template |= {"metadata": metadata} if metadata else {}
    template |= {"namespace": namespace} if namespace else {}
    return reservation(template=template, annotations=annotations)


def test_it_asks_for_what_is_to_be_held_and_runs_nothing():
    spec = placeholders.placeholder_manifest(of())["spec"]
    (container,) = spec["containers"]
    assert spec["terminationGracePeriodSeconds"] == 0
    assert container["image"] == PAUSE_IMAGE
    assert container["resources"] == {
        "requests": {"cpu": "2", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }


def test_all_containers_have_the_image_that_is_configured():
    made = placeholders.placeholder_manifest(of(initContainers=[{"name": "i", "resources": {"limits": GPU}}]))
    changed = placeholders.with_image(made, "registry.example.com/pause:3.10")
    assert [each["image"] for kind in ("containers", "initContainers") for each in changed["spec"][kind]] == (
        ["registry.example.com/pause:3.10"] * 2
    )
    assert placeholders.with_image(changed, PAUSE_IMAGE) == made


@pytest.mark.parametrize(("given", "made"), [("", "default-scheduler"), ("other", "other")], ids=["none", "another"])
def test_the_scheduler_of_the_template_places_what_stays(given, made):
    spec = {"schedulerName": given} if given else {}
    assert placeholders.first_manifest(of(**spec))["spec"]["schedulerName"] == made


def test_annotations_of_the_reservation_come_over_those_of_the_template_as_labels_do():
    given = of(
        metadata={"labels": {"a": "1", "b": "1"}, "annotations": {"a": "1", "b": "1"}},
        annotations={
            "b": "2",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kubernetes.io/config.mirror": "x",
            "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
            "reserve.dra/placed-over": "u",
            "scheduling.koordinator.sh/reservation-allocated": "{}",
        },
    )
    made = placeholders.placeholder_manifest(given)["metadata"]["annotations"]
    assert made == {"a": "1", "b": "2", "scheduling.koordinator.sh/reservation-name": "demo"}
    assert placeholders.first_manifest(given)["metadata"]["annotations"].keys() == {
        "scheduling.koordinator.sh/reservation-name"
    }


@pytest.mark.parametrize(
    ("given", "made"),
    [("high", "high"), ("system-node-critical", None), ("system-cluster-critical", None)],
    ids=["of-users", "node-critical", "cluster-critical"],
)
def test_no_placeholder_has_a_priority_class_of_the_system(given, made):
    assert placeholders.placeholder_manifest(of(priorityClassName=given))["spec"].get("priorityClassName") == made


OVER_PODS = {"preAllocation": True, "allocatePolicy": "Restricted"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param(OVER_PODS, "0", id="pre-allocation"),
        pytest.param({"preAllocation": True}, "2", id="pre-allocation-needs-policy-Restricted"),
        pytest.param({"allocatePolicy": "Restricted"}, "2", id="no-pre-allocation"),
    ],
)
def test_a_placeholder_requests_nothing_where_running_pods_may_have_the_room(spec, cpu):
    """NodeResourcesFit counts the pods over which the reservation is to be placed, and refuses their node."""
    container = {"name": "a", "image": "b", "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": 1}}}
    given = reservation(template={"spec": {"containers": [container]}}, **spec)
    (made,) = placeholders.placeholder_manifest(given)["spec"]["containers"]
    assert made["resources"]["requests"]["cpu"] == cpu
    (keeper,) = placeholders.first_manifest(given)["spec"]["containers"]
    assert keeper["resources"]["requests"] == {"cpu": "2", "nvidia.com/gpu": "1"}


def test_what_is_resized_is_what_it_asks_for():
    resized = {"scheduling.koordinator.sh/reservation-resize-allocatable": '{"resources": {"cpu": "3"}}'}
    (container,) = placeholders.placeholder_manifest(of(annotations=resized))["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "3"


@pytest.mark.parametrize(
    ("given", "namespace"),
    [
        pytest.param({}, "default", id="none"),
        pytest.param({"metadata": {"namespace": "ml"}}, "ml", id="in-the-metadata"),
        pytest.param({"namespace": "ml"}, "ml", id="as-old-manifests-have-it"),
    ],
)
def test_it_is_in_the_namespace_of_the_template(given, namespace):
    assert placeholders.placeholder_key(of(**given)) == (namespace, "reservation-uid-demo")


def test_constraints_come_from_the_template_and_nothing_else_does():
    given = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "high",
        "priority": 7,
        "volumes": [{"name": "v"}],
        "schedulerName": "mine",
    }
    spec = placeholders.placeholder_manifest(of(**given))["spec"]
    kept = {"nodeSelector", "tolerations", "priorityClassName", "schedulerName"}
    assert {name: spec[name] for name in kept} == {name: given[name] for name in kept}
    assert not {"priority", "volumes"} & spec.keys()
    assert placeholders.placeholder_manifest(of())["spec"]["schedulerName"] == "koord-scheduler"


THIS = {"key": "metadata.name", "operator": "In", "values": ["n7"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        pytest.param(None, [{"matchFields": [THIS]}], id="no-affinity"),
        pytest.param(
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": ["x"]}, {"matchFields": ["y"]}]}}},
            [{"matchExpressions": ["x"], "matchFields": [THIS]}, {"matchFields": ["y", THIS]}],
            id="each-term",
        ),
    ],
)
def test_a_node_that_is_named_is_required_so_that_room_and_taints_are_checked(affinity, terms):
    given = {"nodeName": "n7"} | ({"affinity": affinity} if affinity else {})
    spec = placeholders.placeholder_manifest(of(**given))["spec"]
    assert "nodeName" not in spec
    assert spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == terms


def metadata(name="reservation-u", **reference):
    whole = {
        "api_version": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "uid": Uid("u"),
        "controller": True,
    }
    return ObjectMeta(name=name, owner_references=[OwnerReference(**(whole | reference))])


@pytest.mark.parametrize(
    ("given", "uid"),
    [
        pytest.param(metadata(), "u", id="placeholder"),
        pytest.param(metadata(name="mine"), None, id="another-name"),
        pytest.param(metadata(controller=False), None, id="no-controller"),
        pytest.param(metadata(kind="Job"), None, id="another-kind"),
        pytest.param(ObjectMeta(name="reservation-u"), None, id="no-owner"),
    ],
)
def test_a_pod_is_a_placeholder_by_controller_and_name(given, uid):
    assert placeholders.reservation_uid_of(given) == uid


LABEL = "scheduling.koordinator.sh/preemption-policy"


def asking(policy=None, *, label=None, migration=False, controller=True):
    content = manifest(template={"spec": {"containers": [], **({"preemptionPolicy": policy} if policy else {})}})
    content["metadata"]["labels"] = {LABEL: label} if label else {}
    if migration:
        owner = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "name": "m", "uid": "m"}
        content["metadata"]["ownerReferences"] = [{**owner, "controller": controller}]
    return parse_reservation(content)


@for_each_case(
    [
        pytest.param(asking(), False, id="unasked"),
        pytest.param(asking("Never"), False, id="never"),
        pytest.param(asking("PreemptLowerPriority"), True, id="the-template-asks"),
        pytest.param(asking(label="PreemptLowerPriority"), True, id="the-label-asks"),
        pytest.param(asking("PreemptLowerPriority", label="Never"), False, id="the-label-comes-first"),
        pytest.param(asking("PreemptLowerPriority", label="?"), True, id="a-label-without-meaning"),
        pytest.param(asking("PreemptLowerPriority", migration=True), False, id="a-migration-copies-its-pod"),
        pytest.param(asking(label="PreemptLowerPriority", migration=True), True, id="the-job-asks"),
        pytest.param(
            asking("PreemptLowerPriority", migration=True, controller=False), True, id="a-job-that-merely-uses-it"
        ),
    ]
)
def test_a_reservation_preempts_nobody_unless_it_is_asked_to(reservation, preempts):
    assert placeholders.may_preempt(reservation) is preempts


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
@pytest.mark.parametrize("made", [placeholders.placeholder_manifest, placeholders.first_manifest])
def test_the_policy_is_not_the_pods_because_the_api_server_takes_it_from_the_class(policy, made):
    spec = made(of(priorityClassName="high", preemptionPolicy=policy))["spec"]
    assert "preemptionPolicy" not in spec
