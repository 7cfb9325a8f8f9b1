"""Pods: what is filled in, what is refused, how they are bound, evicted and deleted."""

from datetime import timedelta

import pytest

from tests.localplane.kinds.registry_client import NOON, RegistryClient, refused
from tests.violations import for_each_case

CHANGE = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
    " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
EITHER = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
GATE = {"name": "reserve.dra/claim"}
NODE = {"kind": "Node", "name": "n1"}


def pod(**spec):
    spec = {"containers": [{"name": "c", "image": "pause"}]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def container(**fields):
    return [{"name": "c", "image": "pause"} | fields]


def change(**spec):
    def mutate(obj):
        obj["spec"].update(spec)

    return mutate


def test_what_a_pod_does_not_say_is_filled_in():
    made = RegistryClient().create(pod())
    assert made["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "pause",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for why in ("not-ready", "unreachable")
        ],
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        pytest.param({}, "BestEffort", id="nothing"),
        pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="requests"),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="limits-of-both"),
        pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="limit-of-one"),
    ],
)
def test_the_quality_of_service(resources, quality):
    assert RegistryClient().create(pod(containers=container(resources=resources)))["status"]["qosClass"] == quality


def test_a_gated_pod_says_so():
    (condition,) = RegistryClient().create(pod(schedulingGates=[GATE]))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


@for_each_case(
    [
        pytest.param({"containers": []}, ["spec.containers: Required value"], id="no-container"),
        pytest.param(
            {"containers": [{"image": "pause"}]}, ["spec.containers[0].name: Required value"], id="container-of-no-name"
        ),
        pytest.param({"containers": [{"name": "c"}]}, ["spec.containers[0].image: Required value"], id="no-image"),
        pytest.param(
            {"containers": container() * 2},
            ['spec.containers[1].name: Duplicate value: "c"'],
            id="containers-of-a-name",
        ),
        pytest.param(
            {"restartPolicy": "Sometimes"},
            [
                'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
            ],
            id="unknown-policy",
        ),
        pytest.param(
            {"containers": container(volumeMounts=[{"name": "v", "mountPath": "/v"}])},
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
            id="mount-of-no-volume",
        ),
        pytest.param(
            {"containers": container(resources={"claims": [{"name": "g"}]})},
            [
                (
                    'spec.containers[0].resources.claims[0]: Not found: "g": must be one of the names in'
                    " pod.spec.resourceClaims which is empty"
                ),
            ],
            id="container-with-no-claim-of-the-pod",
        ),
        pytest.param({"resourceClaims": [{"name": "g", "resourceClaimName": "c1"}]}, [], id="claim"),
        pytest.param(
            {"resourceClaims": [{"name": "g"}]},
            [
                (
                    'spec.resourceClaims[0]: Invalid value: {"Name":"g","ResourceClaimName":null,'
                    f'"ResourceClaimTemplateName":null}}: {EITHER}'
                ),
            ],
            id="claim-of-nothing",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "g", "resourceClaimName": "a"}, {"name": "g", "resourceClaimName": "b"}]},
            ['spec.resourceClaims[1].name: Duplicate value: "g"'],
            id="claims-of-a-name",
        ),
        pytest.param(
            {"schedulingGates": [GATE], "nodeName": "n1"},
            ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
            id="bound-and-gated",
        ),
        pytest.param(
            {"schedulingGates": [GATE, GATE]},
            ['spec.schedulingGates[1]: Duplicate value: "reserve.dra/claim"'],
            id="gate-twice",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            ["spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
            id="toleration",
        ),
        pytest.param(
            {"containers": container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})},
            [
                (
                    'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu '
                    "limit of 1"
                ),
            ],
            id="request-above-the-limit",
        ),
        pytest.param(
            {"priorityClassName": "high"},
            ['pods "p" is forbidden: no PriorityClass with name high was found'],
            id="unknown-class",
        ),
        pytest.param(
            {"priority": 7},
            [
                (
                    'pods "p" is forbidden: the integer value of priority (7) must not be provided in pod spec; '
                    "priority admission controller computed 0 from the given PriorityClass name"
                ),
            ],
            id="priority-without-class",
        ),
    ],
)
def test_what_a_pod_may_be(spec, causes):
    assert refused(RegistryClient().create, pod(**spec)) == causes


def test_a_pod_has_the_priority_of_its_class():
    assert RegistryClient().create(pod(priorityClassName="system-node-critical"))["spec"]["priority"] == 2_000_001_000


@for_each_case(
    [
        pytest.param({}, {"containers": container(image="other")}, [], id="image"),
        pytest.param({}, {"schedulerName": "mine"}, None, id="scheduler"),
        pytest.param({}, {"nodeSelector": {"a": "b"}}, None, id="selector-of-an-ungated-pod"),
        pytest.param({"schedulingGates": [GATE]}, {"nodeSelector": {"a": "b"}}, [], id="selector-of-a-gated-pod"),
        pytest.param({"schedulingGates": [GATE]}, {"schedulingGates": []}, [], id="gate-taken-away"),
        pytest.param(
            {},
            {"schedulingGates": [GATE]},
            [
                (
                    "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate"
                    " 'reserve.dra/claim'"
                ),
            ],
            id="gate-added",
        ),
        pytest.param(
            {},
            {"tolerations": []},
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
            id="toleration-taken-away",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": 6},
            ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"],
            id="later-deadline",
        ),
        pytest.param(
            {"schedulingGates": [GATE], "nodeSelector": {"a": "b"}},
            {"nodeSelector": {}},
            [
                (
                    "spec.nodeSelector: Invalid value: {}: only additions to spec.nodeSelector are allowed (no "
                    "mutations or deletions)"
                ),
            ],
            id="wider-selector",
        ),
        pytest.param(
            {},
            {"containers": container() + container(name="d")},
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
            id="more-containers",
        ),
    ]
)
def test_what_may_change(born, spec, causes):
    writing = RegistryClient()
    made = writing.create(pod(**born))
    if "containers" in spec:
        spec["containers"] = [made["spec"]["containers"][0] | each for each in spec["containers"]]
    found = refused(writing.update, pod(), change(**spec))
    if causes is None:
        (cause,) = found
        assert cause.startswith(CHANGE)
    else:
        assert found == causes


def test_binding_names_the_node_and_says_scheduled():
    writing = RegistryClient()
    writing.create(pod())
    bound = writing.create_subresource(pod(), "binding", {"metadata": {"name": "p"}, "target": NODE})
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["generation"] == 1
    assert bound["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-11-21T12:00:00Z"}
    ]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"nodeName": "n1"}, 'pod p is already assigned to node "n1"', id="golden-bound-already"),
        pytest.param({"schedulingGates": [GATE]}, "pod p has non-empty .spec.schedulingGates", id="gated"),
    ],
)
def test_who_may_not_be_bound(spec, why):
    writing = RegistryClient()
    writing.create(pod(**spec))
    found = refused(writing.create_subresource, pod(), "binding", {"metadata": {"name": "p"}, "target": NODE})
    assert found == [f'Operation cannot be fulfilled on pods/binding "p": {why}']


def test_a_deleted_pod_may_not_be_bound():
    writing = RegistryClient()
    obj = pod()
    obj["metadata"]["finalizers"] = ["example.com/f"]
    writing.create(obj)
    writing.delete(obj)
    why = "pod p is being deleted, cannot be assigned to a host"
    found = refused(writing.create_subresource, obj, "binding", {"metadata": {"name": "p"}, "target": NODE})
    assert found == [f'Operation cannot be fulfilled on pods/binding "p": {why}']


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "gone"),
    [
        pytest.param({}, "Pending", None, True, id="unbound"),
        pytest.param({"nodeName": "n1"}, "Running", None, False, id="bound"),
        pytest.param({"nodeName": "n1"}, "Succeeded", None, True, id="finished"),
        pytest.param({"nodeName": "n1"}, "Running", 0, True, id="by-force"),
    ],
)
def test_a_bound_pod_is_left_to_its_kubelet_for_a_while(spec, phase, asked, gone):
    writing = RegistryClient()
    writing.create(pod(**spec))
    writing.update(pod(), lambda obj: obj["status"].update(phase=phase), "status")
    assert writing.delete(pod(), grace_period_seconds=asked)[1] is gone
    if not gone:
        meta = writing.get(pod())["metadata"]
        assert meta["deletionGracePeriodSeconds"] == 30


def test_an_evicted_pod_says_why_and_goes():
    writing = RegistryClient()
    writing.create(pod(nodeName="n1"))
    writing.update(pod(), lambda obj: obj["status"].update(phase="Running"), "status")
    evicted = writing.create_subresource(pod(), "eviction", {"metadata": {"name": "p"}})
    assert "deletionTimestamp" in evicted["metadata"]
    (condition,) = evicted["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


def test_a_status_names_claims_of_the_pod_only():
    writing = RegistryClient()
    writing.create(pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}]))

    def name(claim):
        entry = {"name": claim, "resourceClaimName": "c"}
        return lambda obj: obj["status"].update(resourceClaimStatuses=[entry])

    assert refused(writing.update, pod(), name("g"), "status") == []
    assert refused(writing.update, pod(), name("h"), "status") == [
        (
            'status.resourceClaimStatuses[0].name: Invalid value: "h": must match the name of an entry in'
            " `spec.resourceClaims`"
        ),
    ]


RUNNING = {"name": "c", "ready": True, "state": {"running": {}}}


@for_each_case(
    [
        pytest.param({}, {}, ("0/1", "Pending", "0"), id="golden-pending"),
        pytest.param({"schedulingGates": [GATE]}, {}, ("0/1", "SchedulingGated", "0"), id="gated"),
        pytest.param(
            {"nodeName": "n1"},
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            ("0/1", "ContainerCreating", "0"),
            id="creating",
        ),
        pytest.param(
            {"nodeName": "n1"},
            {"phase": "Running", "containerStatuses": [RUNNING]},
            ("1/1", "Running", "0"),
            id="running",
        ),
        pytest.param(
            {"nodeName": "n1"},
            {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]},
            ("0/1", "Completed", "0"),
            id="completed",
        ),
        pytest.param(
            {"nodeName": "n1"},
            {
                "phase": "Running",
                "containerStatuses": [
                    RUNNING | {"restartCount": 2, "lastState": {"terminated": {"finishedAt": "2026-11-21T11:59:00Z"}}},
                ],
            },
            ("1/1", "Running", "2 (60s ago)"),
            id="restarted",
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "image": "x"}]},
            {"initContainerStatuses": [{"name": "i", "state": {"running": {}}}]},
            ("0/1", "Init:0/1", "0"),
            id="initializing",
        ),
    ]
)
def test_the_line_of_a_pod(spec, status, line):
    writing = RegistryClient()
    writing.create(pod(**spec))
    writing.update(pod(), lambda obj: obj["status"].update(status), "status")
    cells = writing.table_cells(pod(), NOON + timedelta(seconds=99))
    assert (cells["Ready"], cells["Status"]) == line[:2]
    assert cells["Age"] == "99s"
    assert writing.table_cells(pod())["Restarts"] == line[2]
