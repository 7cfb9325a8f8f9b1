"""What goes wrong after a pod was bound is named for the pod, for its claim and in the audit."""

import pytest

from dra.engine.diagnosis import claims, pods
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.device_faults import DEVICE_FAULTS
from dra.engine.diagnosis.problem_codes import ProblemCode
from tests.dra.engine.diagnosis.cluster_states import DRIVER, claim, cluster_state, entry, offer, pod, rule
from tests.violations import for_each_case

CDI = "failed to inject CDI devices: unresolvable CDI devices gpu.reserve.dra/claim=4d1b-0"
HELD = claim("c", "n1/gpu-0", listed=(entry("a"),))


def waiting(reason, message="", *, name="main"):
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def unhealthy(health="Unhealthy", *, name="claim:c0/gpu", message="XID 79"):
    resources = [{"resourceID": "gpu.example.com/gpu=gpu-0", "health": health, "message": message}]
    return {
        "name": "main",
        "state": {"running": {}},
        "allocatedResourcesStatus": [{"name": name, "resources": resources}],
    }


def using(*containers, started=True, init=()):
    found = pod("a", "c", on="n1", phase="Running", started=started)
    return {
        **found,
        "status": {**found["status"], "containerStatuses": list(containers), "initContainerStatuses": list(init)},
    }


def failure(
    message,
    *,
    reason="FailedPrepareDynamicResources",
    uid="uid-a",
    last="2026-11-20T11:50:00Z",
    name="a.1",
    count=12,
    namespace="ml",
):
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"},
        "regarding": {"kind": "Pod", "uid": uid},
        "reason": reason,
        "note": message,
        "deprecatedCount": count,
        "deprecatedLastTimestamp": last,
    }


def reporting(*conditions, device="gpu-0"):
    found = claim("c", "n1/gpu-0", listed=(entry("a"),))
    status = {"driver": DRIVER, "pool": "n1", "device": device, "conditions": list(conditions)}
    return {**found, "status": {**found["status"], "devices": [status]}}


def condition(kind, status="False", reason="LinkDown"):
    return {"type": kind, "status": status, "reason": reason}


def tainted(effect, *, tolerations=()):
    slices = [offer("n1"), offer("n2"), offer("n3")]
    slices[0]["spec"]["devices"][0]["taints"] = [
        {"key": "xid", "value": "79", "effect": effect, "timeAdded": "2026-11-20T11:00:00Z"}
    ]
    found = claim("c", "n1/gpu-0", listed=(entry("a"),))
    found["status"]["allocation"]["devices"]["results"][0]["tolerations"] = list(tolerations)
    return {"slices": slices, "held": found}


def told(one_pod, *, held=HELD, **cluster):
    """Return the problems of the pod, of its claim, and of the whole cluster, each with its facts."""
    state = cluster_state(held, pods=(one_pod,), **cluster)
    of_pod, of_claim = pods.explain(state, ("ml", "a")), claims.explain(state, ("ml", "c"))
    return of_pod.problems, of_claim.problems, audit(state)


@for_each_case(
    [
        pytest.param(
            using(waiting("CreateContainerError", CDI)),
            {},
            ProblemCode.CONTAINER_NOT_RUNNING,
            {"container": "main", "cdi": 1, "error": f"CreateContainerError: {CDI}"},
            id="the-runtime-does-not-know-the-cdi-device",
        ),
        pytest.param(
            using(waiting("PodInitializing"), init=[waiting("CrashLoopBackOff", "back-off 5m0s", name="setup")]),
            {},
            ProblemCode.CONTAINER_NOT_RUNNING,
            {"container": "setup", "cdi": 0},
            id="an-init-container-ends-again-and-again",
        ),
        pytest.param(
            using(waiting("ImagePullBackOff"), waiting("CreateContainerError", CDI, name="side")),
            {},
            ProblemCode.CONTAINER_NOT_RUNNING,
            {"container": "side (and 1 more)", "cdi": 1},
            id="the-container-without-its-cdi-device-comes-first",
        ),
        pytest.param(
            using(unhealthy()),
            {},
            ProblemCode.DEVICE_UNHEALTHY,
            {"device": "gpu.example.com/gpu=gpu-0 of claim c", "message": ": XID 79"},
            id="the-kubelet-reports-an-unhealthy-device",
        ),
        pytest.param(
            using(started=False),
            {"start_failures": [failure("DRA driver other.example.com is not registered")]},
            ProblemCode.NOT_PREPARED,
            {"driver": "other.example.com", "count": 12, "last": "2026-11-20T11:50:00Z"},
            id="the-driver-is-not-registered",
        ),
        pytest.param(
            using(started=False),
            {"start_failures": [failure("plugin type=dranet failed", reason="FailedCreatePodSandBox")]},
            ProblemCode.NOT_PREPARED,
            {"driver": "", "message": "plugin type=dranet failed"},
            id="a-network-device-fails-with-the-sandbox",
        ),
        pytest.param(
            using(started=False),
            {
                "start_failures": [
                    failure("new", last="2026-11-20T11:59:00Z", name="a.2"),
                    failure("old", last="2026-11-20T11:00:00Z"),
                ]
            },
            ProblemCode.NOT_PREPARED,
            {"message": "new"},
            id="the-last-event-counts",
        ),
        pytest.param(
            using(),
            {"held": reporting(condition("Ready"))},
            ProblemCode.DEVICE_CONDITION,
            {"condition": "Ready", "reason": " (LinkDown)", "device": f"{DRIVER}/n1/gpu-0"},
            id="the-driver-reports-a-device-that-is-not-ready",
        ),
        pytest.param(
            using(),
            {"held": reporting(condition("net.example.com/Healthy"))},
            ProblemCode.DEVICE_CONDITION,
            {"condition": "net.example.com/Healthy"},
            id="a-condition-with-a-domain",
        ),
        pytest.param(
            using(),
            tainted("NoExecute"),
            ProblemCode.DEVICE_TAINTED,
            {"taint": "xid=79:NoExecute", "after": ""},
            id="a-taint-that-evicts",
        ),
        pytest.param(
            using(),
            tainted("NoExecute", tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]),
            ProblemCode.DEVICE_TAINTED,
            {"after": " 30 s after it was added"},
            id="a-taint-that-evicts-later",
        ),
        pytest.param(
            using(),
            tainted("NoSchedule"),
            ProblemCode.DEVICE_IMPAIRED,
            {"taint": "xid=79:NoSchedule"},
            id="a-taint-of-the-driver-that-evicts-nobody",
        ),
        pytest.param(
            using(), tainted("None"), ProblemCode.DEVICE_IMPAIRED, {"taint": "xid=79:None"}, id="a-mark-of-the-driver"
        ),
        pytest.param(
            using(),
            {"rules": [rule(pool="n1")]},
            ProblemCode.DEVICE_CLOSED,
            {"taint": "service:NoSchedule"},
            id="a-rule-that-evicts-nobody",
        ),
    ]
)
def test_a_fault_after_binding_is_named_for_pod_and_claim_and_in_the_audit(one_pod, cluster, code, facts):
    for problems in told(one_pod, **cluster):
        (problem,) = (each for each in problems if each.code is code)
        assert facts.items() <= problem.facts_by_name.items()


FAULTS = DEVICE_FAULTS | {ProblemCode.NOT_PREPARED, ProblemCode.CONTAINER_NOT_RUNNING, ProblemCode.DEVICE_UNHEALTHY}


@for_each_case(
    [
        pytest.param(using(waiting("ContainerCreating")), {}, id="a-container-that-is-being-created"),
        pytest.param(using(unhealthy("Healthy")), {}, id="a-healthy-device"),
        pytest.param(using(unhealthy("Unknown")), {}, id="a-device-whose-health-is-unknown"),
        pytest.param(using(), {"start_failures": [failure("timed out")]}, id="the-sandbox-is-ready-by-now"),
        pytest.param(
            using(started=False), {"start_failures": [failure("timed out", uid="uid-x")]}, id="an-event-of-another-pod"
        ),
        pytest.param(
            using(started=False),
            {"start_failures": [failure("forged", namespace="evil")]},
            id="an-event-that-another-namespace-has-written",
        ),
        pytest.param(using(), {"held": reporting(condition("Ready", "True"))}, id="a-device-that-is-ready"),
        pytest.param(using(), {"held": reporting(condition("Calibrated"))}, id="a-condition-of-unknown-meaning"),
        pytest.param(
            using(), {"held": reporting(condition("Ready"), device="gpu-9")}, id="the-device-of-a-former-allocation"
        ),
        pytest.param(
            using(),
            tainted("NoExecute", tolerations=[{"operator": "Exists", "effect": "NoExecute"}]),
            id="an-evicting-taint-that-the-claim-tolerates-for-ever",
        ),
        pytest.param(
            using(), tainted("NoSchedule", tolerations=[{"operator": "Exists"}]), id="a-taint-that-the-claim-tolerates"
        ),
    ]
)
def test_what_is_no_fault_is_not_named(one_pod, cluster):
    for problems in told(one_pod, **cluster):
        assert not [each for each in problems if each.code in FAULTS]
