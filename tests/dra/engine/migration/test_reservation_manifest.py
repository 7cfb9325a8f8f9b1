import msgspec
import pytest

from dra.api.durations import SECOND
from dra.api.migration.model import parse_pod_migration_job
from dra.api.reservations.model import parse_reservation
from dra.engine.migration.reservation_manifest import (
    TEMPLATE_SIZE_MAX,
    exclude_node,
    narrow_affinity,
    reservation_manifest,
    without_bulk,
)
from dra.engine.reservations import reservation_info
from tests.dra.engine.migration.world import CONTROLLER, JOB_UID, NOON, OLD_NODE, job, pod

NOT_THERE = {"key": "metadata.name", "operator": "NotIn", "values": [OLD_NODE]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def made(of=None, *, template=None, preemption=None, pending=False, ttl=300):
    options = {} if template is None else {"template": template}
    options |= {} if preemption is None else {"preemptionOptions": preemption}
    parsed = parse_pod_migration_job(job(spec={"reservationOptions": options} if options else {}))
    return reservation_manifest(parsed, of or pod(), ttl=ttl * SECOND, pending=pending, now=NOON)


def test_the_reservation_is_the_jobs():
    metadata = made()["metadata"]
    assert metadata["name"] == JOB_UID
    assert metadata["labels"] == {
        "scheduling.koordinator.sh/reservation-order": "1800000000000",
        "app.kubernetes.io/created-by": "dra-reserve-descheduler",
    }
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "name": "migration",
            "uid": JOB_UID,
            "controller": True,
        }
    ]


def test_the_reservation_is_for_one_pod_of_the_workload():
    spec = made()["spec"]
    assert spec["owners"] == [{"controller": {**CONTROLLER, "namespace": "default"}}]
    assert (spec["allocateOnce"], spec["ttl"]) == (True, "5m0s")


def test_the_template_is_the_pod_without_what_describes_this_pod_alone():
    given = pod(
        metadata={
            "labels": {"reserve.dra/inside": "x"},
            "annotations": {
                "a": "b",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "scheduling.koordinator.sh/reservation-allocated": "{}",
            },
            "managedFields": [{}],
        },
        spec={"ephemeralContainers": [{}], "priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
    )
    template = made(given)["spec"]["template"]
    assert template["metadata"] == {"namespace": "default", "labels": {"app": "web"}, "annotations": {"a": "b"}}
    assert template["spec"].keys() == {"schedulerName", "containers", "priorityClassName", "affinity"}


def test_the_reservation_can_be_read():
    parsed = parse_reservation(made())
    assert reservation_info.from_reservation(parsed).parse_error == ""


@pytest.mark.parametrize(
    ("required", "wanted"),
    [
        pytest.param(None, [{"matchFields": [NOT_THERE]}], id="no-affinity"),
        pytest.param([], [{"matchFields": [NOT_THERE]}], id="no-terms"),
        pytest.param(
            [{"matchExpressions": [ZONE]}, {"matchFields": [ZONE]}],
            [{"matchExpressions": [ZONE], "matchFields": [NOT_THERE]}, {"matchFields": [ZONE, NOT_THERE]}],
            id="each-term",
        ),
    ],
)
def test_each_required_term_excludes_the_pods_node(required, wanted):
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    affinity = {"podAntiAffinity": {"x": []}, "nodeAffinity": dict(preferred)}
    if required is not None:
        affinity["nodeAffinity"][REQUIRED] = {"nodeSelectorTerms": required}
    found = exclude_node(OLD_NODE, affinity)
    assert found["nodeAffinity"] == {**preferred, REQUIRED: {"nodeSelectorTerms": wanted}}
    assert found["podAntiAffinity"] == {"x": []}


def only(*terms):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


LARGE = {"tolerations": [{"key": "x" * TEMPLATE_SIZE_MAX}]}


@pytest.mark.parametrize("of", [pod(), pod(spec=LARGE)], ids=["small-pod", "large-pod"])
@pytest.mark.parametrize("wrong", [5, "s", [5], [None], {"a": 5}, True], ids=repr)
@pytest.mark.parametrize(
    "field",
    [
        pytest.param(("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"), id="terms"),
        pytest.param(("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms", 0), id="a-term"),
        pytest.param(
            ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms", 0, "matchFields"), id="matchFields"
        ),
        pytest.param(
            ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms", 0, "matchExpressions"),
            id="matchExpressions",
        ),
        pytest.param(("spec", "initContainers"), id="initContainers"),
        pytest.param(("metadata", "annotations"), id="annotations"),
        pytest.param(("metadata", "labels"), id="labels"),
    ],
)
def test_a_field_of_a_wrong_type_raises_nothing_here_and_fails_the_reservation_with_a_reason(of, field, wrong):
    template = {"metadata": {}, "spec": {"affinity": only({"matchFields": [ZONE]})}}
    parent = template
    for name in field[:-1]:
        parent = parent[name]
    parent[field[-1]] = wrong
    manifest = made(of, template={"spec": {"template": template}})
    assert manifest["spec"]["template"]["metadata"]["namespace"] == "default"
    if field[-1] in {"matchFields", "initContainers"} and wrong == 5:
        assert field[-1] in reservation_info.from_reservation(parse_reservation(manifest)).parse_error


def test_a_template_of_the_user_is_the_base_and_its_gaps_are_filled():
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    given = {
        "metadata": {
            "name": "mine",
            "labels": {"team": "a", "scheduling.koordinator.sh/reservation-order": "7"},
            "annotations": {"x": "y"},
        },
        "spec": {"owners": owners, "allocateOnce": False, "expires": "2027-02-01T00:00:00Z", "unschedulable": False},
    }
    found = made(template=given)
    assert found["metadata"]["name"] == JOB_UID
    assert found["metadata"]["labels"]["team"] == "a"
    assert found["metadata"]["labels"]["scheduling.koordinator.sh/reservation-order"] == "7"
    assert found["metadata"]["annotations"] == {"x": "y"}
    assert found["spec"]["owners"] == owners
    assert found["spec"]["allocateOnce"] is True
    assert "ttl" not in found["spec"]
    assert found["spec"]["template"]["spec"]["containers"] == pod()["spec"]["containers"]


def test_a_pod_template_of_the_user_excludes_the_pods_node_too():
    containers = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    template = made(template={"spec": {"template": {"spec": {"containers": containers}}}})["spec"]["template"]
    assert template["spec"]["containers"] == containers
    assert template["spec"]["affinity"] == exclude_node(OLD_NODE, {})
    assert template["metadata"]["namespace"] == "default"


POLICY = "scheduling.koordinator.sh/preemption-policy"


@pytest.mark.parametrize(
    ("preemption", "given", "policy"),
    [
        pytest.param(None, None, None, id="unasked"),
        pytest.param({}, None, None, id="no-options"),
        pytest.param({"enablePreemption": False}, None, None, id="refused"),
        pytest.param({"enablePreemption": True}, None, "PreemptLowerPriority", id="asked"),
        pytest.param(None, "PreemptLowerPriority", None, id="a-label-alone"),
        pytest.param({"enablePreemption": True}, "Never", "PreemptLowerPriority", id="the-option-comes-first"),
    ],
)
def test_the_reservation_preempts_pods_only_if_the_job_says_so(preemption, given, policy):
    template = None if given is None else {"metadata": {"labels": {POLICY: given}}}
    labels = made(preemption=preemption, template=template)["metadata"]["labels"]
    assert labels.get(POLICY) == policy


REQUESTS = {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}}
PORTS = [{"containerPort": 80, "hostPort": 80}]


def template(*, args=0, annotation=0, variables=0):
    container = {
        "name": "main",
        "image": "app",
        "resources": REQUESTS,
        "ports": PORTS,
        "args": ["x" * args],
        "env": [{"name": f"A{n}", "value": "b"} for n in range(variables)],
    }
    return {
        "namespace": "ml",
        "metadata": {"labels": {"app": "web"}, "annotations": {"short": "a", "long": "x" * annotation}},
        "spec": {
            "priorityClassName": "high",
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "v", "configMap": {"name": "c"}}],
            "containers": [container],
            "initContainers": [{**container, "name": "init", "restartPolicy": "Always"}],
        },
    }


def test_the_template_of_a_usual_pod_is_complete():
    usual = template(args=1000, annotation=1000, variables=100)
    assert without_bulk(usual) == usual


@pytest.mark.parametrize(
    "large",
    [
        pytest.param(template(args=TEMPLATE_SIZE_MAX), id="a-script"),
        pytest.param(template(annotation=TEMPLATE_SIZE_MAX), id="an-annotation"),
        pytest.param(template(variables=3000), id="variables"),
    ],
)
def test_the_template_of_a_large_pod_keeps_what_decides_about_its_node(large):
    kept = without_bulk(large)
    assert len(msgspec.json.encode(kept)) < 4096
    container = {"name": "main", "image": "app", "resources": REQUESTS, "ports": PORTS}
    assert kept["spec"] == {
        "priorityClassName": "high",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "initContainers": [{**container, "name": "init", "restartPolicy": "Always"}],
    }
    assert kept["metadata"]["labels"] == {"app": "web"}
    assert "short" in kept["metadata"]["annotations"]


ROOM = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}


def test_a_template_without_containers_adds_to_the_spec_of_the_pod():
    """The descheduler says only which nodes may receive the pod."""
    template = {"spec": {"template": {"spec": {"affinity": only(ROOM)}}}}
    spec = made(template=template)["spec"]["template"]["spec"]
    assert spec["containers"] == pod()["spec"]["containers"]
    assert spec["affinity"] == only({"matchFields": [*ROOM["matchFields"], NOT_THERE]})


def test_receivers_are_joined_with_each_alternative_of_the_pod():
    own = {"podAntiAffinity": {"x": []}, **only({"matchExpressions": [ZONE]}, {"matchFields": [NOT_THERE]})}
    assert narrow_affinity(own, only(ROOM)) == {
        "podAntiAffinity": {"x": []},
        **only({"matchExpressions": [ZONE], **ROOM}, {"matchFields": [NOT_THERE, *ROOM["matchFields"]]}),
    }


def test_preferred_nodes_of_the_pod_stay_preferred():
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    narrowed = narrow_affinity({"nodeAffinity": preferred}, only(ROOM))
    assert narrowed["nodeAffinity"] == {**preferred, **only(ROOM)["nodeAffinity"]}


def test_a_large_pod_stays_without_bulk_when_its_receivers_are_limited():
    large = pod(metadata={"annotations": {"a": "x" * TEMPLATE_SIZE_MAX}})
    template = {"spec": {"template": {"spec": {"affinity": only(ROOM)}}}}
    assert made(large, template=template)["spec"]["template"]["metadata"]["annotations"] == {}
