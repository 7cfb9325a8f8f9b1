"""What an API server sends about ten thousand pods of one claim: list pages, and a watch full of status changes.

The pods are those of a Job as Kubernetes 1.36 shows them, with everything that is of no interest to us and has to be
skipped: managedFields, tolerations, mounts, container statuses. Nine of ten run, the rest has just been bound.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

NAMESPACE: Final = "ml"
CLAIM: Final = "train"
JOB_UID: Final = "7c1e1d5e-0000-4000-8000-000000000000"
NODES: Final = 200
STARTING: Final = 200
"""Pods that are bound and not started; these are listed."""

BASE: Final = 1_000_000
"""The resourceVersion of the list; the k-th event bears the k-th version after it."""

PAGE: Final = 500
CHUNK: Final = 64 << 10
"""Bytes that the server hands to its socket at a time."""

_STAMP: Final = "2026-11-20T12:00:00Z"


def _managed(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _STAMP,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **({"subresource": subresource} if subresource else {}),
    }


def _condition_fields(*kinds: str) -> dict[str, Any]:
    fields: dict[str, Any] = {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
    return {f'k:{{"type":"{kind}"}}': fields for kind in kinds}


_KUBELET_FIELDS: Final = {
    "f:status": {
        "f:conditions": _condition_fields("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready"),
        "f:containerStatuses": {},
        "f:hostIP": {},
        "f:hostIPs": {},
        "f:phase": {},
        "f:podIP": {},
        "f:podIPs": {".": {}, 'k:{"ip":"10.1.2.3"}': {".": {}, "f:ip": {}}},
        "f:startTime": {},
    }
}
_CREATOR_FIELDS: Final = {
    "f:metadata": {
        "f:annotations": {".": {}, "f:batch.kubernetes.io/job-completion-index": {}},
        "f:finalizers": {".": {}, 'v:"batch.kubernetes.io/job-tracking"': {}},
        "f:generateName": {},
        "f:labels": {".": {}, "f:batch.kubernetes.io/job-name": {}, "f:job-name": {}},
        "f:ownerReferences": {".": {}, f'k:{{"uid":"{JOB_UID}"}}': {}},
    },
    "f:spec": {
        "f:containers": {'k:{"name":"main"}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}},
        "f:resourceClaims": {".": {}, 'k:{"name":"gpu"}': {".": {}, "f:name": {}, "f:resourceClaimName": {}}},
        "f:restartPolicy": {},
    },
}


def _pod(*, phase: str, started: bool, ready: bool) -> dict[str, Any]:
    def condition(kind: str, *, true: bool) -> dict[str, Any]:
        status = "True" if true else "False"
        return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": _STAMP}

    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "@NAME@",
            "generateName": "train-",
            "namespace": NAMESPACE,
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "generation": 1,
            "creationTimestamp": _STAMP,
            "labels": {"batch.kubernetes.io/job-name": "train", "job-name": "train"},
            "annotations": {"batch.kubernetes.io/job-completion-index": "@NUMBER@"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "train",
                    "uid": JOB_UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "managedFields": [
                _managed("kube-controller-manager", _CREATOR_FIELDS),
                _managed("kubelet", _KUBELET_FIELDS, "status"),
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/train:v1",
                    "resources": {"requests": {"cpu": "4"}, "claims": [{"name": "gpu"}]},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "nodeName": "@NODE@",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
                for taint in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "resourceClaims": [{"name": "gpu", "resourceClaimName": CLAIM}],
        },
        "status": {
            "observedGeneration": 1,
            "phase": phase,
            "conditions": [
                condition("PodReadyToStartContainers", true=started),
                condition("Initialized", true=True),
                condition("Ready", true=ready),
                condition("ContainersReady", true=ready),
                condition("PodScheduled", true=True),
            ],
            "hostIP": "10.0.0.7",
            "hostIPs": [{"ip": "10.0.0.7"}],
            "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}],
            "startTime": _STAMP,
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": _STAMP}} if ready else {"waiting": {"reason": "Creating"}},
                    "lastState": {},
                    "ready": ready,
                    "restartCount": 0,
                    "image": "registry.example.com/train:v1",
                    "imageID": "registry.example.com/train@sha256:" + 64 * "a",
                    "started": ready,
                }
            ],
            "qosClass": "Burstable",
        },
    }


_STATES: Final = {
    state: json.dumps(pod, separators=(",", ":")).encode()
    for state, pod in {
        "starting": _pod(phase="Pending", started=False, ready=False),
        "started": _pod(phase="Running", started=True, ready=False),
        "ready": _pod(phase="Running", started=True, ready=True),
        "succeeded": _pod(phase="Succeeded", started=False, ready=False),
    }.items()
}


def uid(number: int) -> str:
    """Return the uid of a pod."""
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def pod(number: int, *, state: str, version: int) -> bytes:
    """Return a pod as the API server writes it."""
    raw = _STATES[state].replace(b"@NAME@", b"train-%05d" % number, 1).replace(b"@UID@", uid(number).encode(), 1)
    raw = raw.replace(b"@VERSION@", b"%d" % version, 1).replace(b"@NUMBER@", b"%d" % number, 1)
    return raw.replace(b"@NODE@", b"node-%04d" % (number % NODES), 1)


def pages(pods: int, *, size: int = PAGE) -> list[bytes]:
    """Return the list of all pods, page by page; the continue token is the number of the next page."""
    starts = range(0, pods, size)
    pages = []
    for page, start in enumerate(starts, start=1):
        items = (
            pod(number, state="starting" if number < STARTING else "started", version=BASE - pods + number)
            for number in range(start, min(start + size, pods))
        )
        more = str(page) if page < len(starts) else ""
        head = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(BASE)}})
        head = head[:-2] + f', "continue": "{more}"}}, "items": ['
        pages.append(head.encode() + b",".join(items) + b"]}")
    return pages


def _state(number: int, turn: int) -> str:
    """Return the state of a pod after its n-th event: it gets ready, is seen again, and one in ten ends."""
    if turn == 0:
        return "ready"
    return "succeeded" if turn == 2 and number % 10 == 0 else "ready" if turn % 2 else "started"  # noqa: PLR2004


def events(pods: int, count: int) -> Iterator[bytes]:
    """Yield chunks of whole watch frames: the pods change one after the other, again and again."""
    chunk, size = [], 0
    for event in range(count):
        turn, number = divmod(event, pods)
        raw = pod(number, state=_state(number, turn), version=BASE + 1 + event)
        chunk += [b'{"type":"MODIFIED","object":', raw, b"}\n"]
        size += len(raw)
        if size >= CHUNK:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)
