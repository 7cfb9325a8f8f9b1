"""What pods the controller's account may create: placeholders of Reservations as it makes them, and no field more.

A stolen token made pods with images of its own, capabilities, hooks and secrets, on nodes of its choice.
"""

from __future__ import annotations

from typing import Any

import pytest

from dra.api.reservations.model import Reservation
from dra.api.reservations.well_known import PAUSE_IMAGE
from dra.engine.reservations import placeholders
from localplane.schemas.builtin_schemas import Dialect, load_builtin_schemas
from tests.deploy.admission_requests import Json, asked, changed, placeholder
from tests.deploy.judging import judge, policy
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.translation.examples import gpus
from tests.violations import combinations, for_each_case

PODS = policy("kustomize/base/own-writes.yaml")
UID = "0c3f1e9a-5f6b-4f0e-9f3c-1d2a3b4c5d6e"
TOLERATION = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
CAPABLE = {**placeholders._SECURITY_CONTEXT, "capabilities": {"drop": ["ALL"], "add": ["SYS_MODULE"]}}


def stored(made: Json) -> Json:
    """Return a pod as policies see it: with the defaults of the API server, and what its admission plugins add."""
    made = changed(
        made,
        metadata__uid="u",
        metadata__creationTimestamp="2026-11-28T09:00:00Z",
        metadata__generation=1,
        metadata__managedFields=[{}],
        spec__dnsPolicy="ClusterFirst",
        spec__securityContext={},
        spec__serviceAccountName="default",
        spec__serviceAccount="default",
        spec__imagePullSecrets=[{"name": "registry"}],
        spec__priority=0,
        spec__preemptionPolicy="PreemptLowerPriority",
        spec__tolerations=[TOLERATION],
    )
    defaults = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    for container in (*made["spec"]["containers"], *made["spec"].get("initContainers", ())):
        container.update(defaults)
    return made


def reserved(**spec: Any) -> Reservation:
    made = manifest()
    made["metadata"]["uid"] = UID
    made["spec"]["template"]["spec"] |= spec
    made["status"] = {"phase": "Available", "nodeName": "n1"}
    return Reservation.model_validate(made)


PORTS = [
    {
        "name": "a",
        "image": "i",
        "resources": {"requests": {"cpu": "1"}},
        "ports": [{"hostPort": 80, "containerPort": 80}],
    }
]
RESTRICTED = {
    "affinity": {"podAntiAffinity": {}},
    "nodeSelector": {"zone": "a"},
    "topologySpreadConstraints": [{"maxSkew": 1}],
    "priorityClassName": "high",
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    "nodeName": "n1",
}


@for_each_case(
    combinations(
        [
            pytest.param(placeholder(), id="plain"),
            pytest.param(placeholder(gpus("a", gpu="50"), gpus("b", gpu="50"), init=[gpus("i", gpu="75")]), id="gpus"),
            pytest.param(
                placeholders.placeholder_manifest(reserved(**RESTRICTED)), id="with-everything-of-its-template"
            ),
            pytest.param(placeholders.placeholder_manifest(reserved(containers=PORTS)), id="with-host-ports"),
            pytest.param(placeholders.first_manifest(reserved()), id="yielding"),
            pytest.param(
                placeholders.additional_manifest(reserved(), number=3, requests={"cpu": 1000}), id="additional"
            ),
            pytest.param(
                placeholders.additional_manifest(
                    reserved(), number=12, requests={"cpu": 1000}, standby_for=("u", "ml"), replaces=("v",)
                ),
                id="standby",
            ),
        ],
        [
            pytest.param({}, id="as-stored"),
            pytest.param({"spec__preemptionPolicy": "Never"}, id="never-preempts"),
            pytest.param({"spec__preemptionPolicy": None, "spec__priority": None}, id="without-priorities"),
            pytest.param({"metadata__annotations__kubernetes.io/limit-ranger": "set"}, id="limit-ranger"),
            pytest.param({"spec__containers__0__imagePullPolicy": "Always"}, id="always-pull-images"),
            pytest.param({"spec__containers__0__resources__claims": [{"name": "koord-cpu"}]}, id="translated"),
            pytest.param({"spec__schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, id="queued"),
            pytest.param(
                {"spec__securityContext": {"fsGroup": 1000680000, "seLinuxOptions": {"level": "s0:c26,c15"}}},
                id="openshift",
            ),
        ],
    )
)
def test_the_controller_makes_its_placeholders(made, additions):
    assert judge(PODS, asked("CREATE"), obj=changed(stored(made), **additions)) == (True, "")


def refused(**changes: Any) -> bool:
    """Report whether a placeholder with other fields is refused."""
    passed, said = judge(
        PODS,
        asked("CREATE"),
        obj=changed(stored(placeholder(gpus("a", gpu="50"), init=[gpus("i", gpu="75")])), **changes),
    )
    assert passed or "it makes placeholders of Reservations" in said
    return not passed


PULL: dict[str, Any] = {"secretKeyRef": {"name": "bootstrap", "key": "token"}}


@for_each_case(
    [
        pytest.param({"spec__containers__0__image": "attacker.example.com/pause:3.10"}, id="an-image-called-pause"),
        pytest.param({"spec__containers__0__image": "registry.k8s.io/pause:3.9"}, id="another-version"),
        pytest.param({"spec__containers__0__image": "registry.k8s.io/pause@sha256:0"}, id="a-digest"),
        pytest.param({"spec__containers__0__name": "main"}, id="another-name"),
        pytest.param({"spec__initContainers": [{"name": "a", "image": "evil"}]}, id="an-init-container"),
        pytest.param({"spec__containers__0__restartPolicy": "Never"}, id="a-container-that-ends"),
        pytest.param({"spec__containers__0__securityContext": CAPABLE}, id="capabilities"),
        pytest.param({"spec__containers__0__securityContext": None}, id="no-security-context"),
        pytest.param({"spec__containers__0__securityContext__privileged": True}, id="privileged"),
        pytest.param({"spec__containers__0__securityContext__runAsUser": 0}, id="root"),
        pytest.param({"spec__containers__0__securityContext__appArmorProfile": {"type": "Unconfined"}}, id="apparmor"),
        pytest.param({"spec__containers__0__securityContext__procMount": "Unmasked"}, id="proc"),
        pytest.param({"spec__securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced"}]}}, id="sysctl"),
        pytest.param({"spec__securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, id="selinux-type"),
        pytest.param({"spec__serviceAccountName": "admin"}, id="another-account"),
        pytest.param({"spec__automountServiceAccountToken": None}, id="with-a-token"),
        pytest.param({"spec__automountServiceAccountToken": True}, id="with-a-token-by-its-word"),
        pytest.param({"spec__nodeName": "node-0"}, id="past-the-scheduler"),
        pytest.param({"spec__hostNetwork": True}, id="host-network"),
        pytest.param({"spec__priority": 2000001000, "spec__priorityClassName": "system-node-critical"}, id="critical"),
        pytest.param({"spec__dnsPolicy": "None"}, id="dns"),
        pytest.param({"metadata__ownerReferences": []}, id="of-no-reservation"),
        pytest.param({"metadata__ownerReferences__0__uid": UID[::-1]}, id="of-another-reservation"),
        pytest.param({"metadata__ownerReferences__0__controller": False}, id="not-controlled"),
        pytest.param({"metadata__ownerReferences__0__kind": "ReplicaSet"}, id="of-another-kind"),
        pytest.param({"metadata__name": "reservation-1"}, id="another-pod-name"),
        pytest.param({"metadata__labels": {}}, id="without-the-label"),
        pytest.param({"metadata__finalizers": ["a/b"]}, id="held-back"),
        pytest.param({"metadata__annotations__kubernetes.io/config.mirror": "x"}, id="mirror-pod"),
        pytest.param(
            {"metadata__annotations__container.apparmor.security.beta.kubernetes.io/placeholder": "unconfined"},
            id="apparmor-annotation",
        ),
    ],
)
def test_a_token_of_the_controller_makes_no_other_pod(changes):
    assert refused(**changes)


DEFINITIONS = load_builtin_schemas(Dialect.STOCK).definitions


def fields(kind: str) -> list[str]:
    """Return the fields of a kind, as the newest API server has them."""
    return sorted(DEFINITIONS[f"io.k8s.api.core.v1.{kind}"]["properties"])


WRITTEN = {
    "PodSpec": {
        *("affinity", "automountServiceAccountToken", "containers", "dnsPolicy", "enableServiceLinks"),
        *("imagePullSecrets", "initContainers", "nodeSelector", "preemptionPolicy", "priority", "priorityClassName"),
        *("resourceClaims", "restartPolicy", "schedulerName", "schedulingGates", "securityContext", "serviceAccount"),
        *("serviceAccountName", "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints"),
    },
    "Container": {
        *("image", "imagePullPolicy", "name", "ports", "resizePolicy", "resources", "restartPolicy"),
        *("securityContext", "terminationMessagePath", "terminationMessagePolicy"),
    },
    "SecurityContext": {
        *("allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem", "runAsNonRoot", "runAsUser"),
        "seccompProfile",
    },
    "PodSecurityContext": {"fsGroup", "seLinuxOptions"},
    "ResourceRequirements": {"claims", "limits", "requests"},
}
AT = {
    "PodSpec": ["spec"],
    "Container": ["spec__containers__0", "spec__initContainers__0"],
    "SecurityContext": ["spec__containers__0__securityContext", "spec__initContainers__0__securityContext"],
    "PodSecurityContext": ["spec__securityContext"],
    "ResourceRequirements": ["spec__containers__0__resources"],
}


@for_each_case(
    [
        pytest.param(kind, field, id=f"{kind}-{field}")
        for kind in WRITTEN
        for field in (*fields(kind), "fieldOfTomorrow")
        if field not in WRITTEN[kind]
    ],
)
def test_a_field_that_no_placeholder_has_is_refused(kind, field):
    """The fields are those of the newest Kubernetes that is recorded: one that a later version adds is a row, too."""
    for place in AT[kind]:
        assert refused(**{f"{place}__{field}": [{"name": "x"}]})
        assert refused(**{f"{place}__{field}": True})


def test_each_field_that_a_placeholder_has_exists():
    for kind, written in WRITTEN.items():
        assert written <= {*fields(kind)}


def test_the_policy_knows_the_image_and_the_security_context_of_the_controller():
    values = {each["name"]: each["expression"] for each in PODS["variables"]}
    assert values["image"] == repr(PAUSE_IMAGE)
    for field in placeholders._SECURITY_CONTEXT:
        assert refused(**{f"spec__containers__0__securityContext__{field}": None})
