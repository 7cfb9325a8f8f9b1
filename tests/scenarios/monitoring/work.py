"""What keeps our processes busy while Prometheus looks: every kind of thing that metrics tell about, in small."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Json = dict[str, Any]

NAMESPACE: Final = "default"
DRIVER: Final = "gpu.reserve.dra"
PROFILE: Final = "koord-scheduler"

PODS: Final = 300
"""Of one claim: more than its list holds, so that some wait for a slot."""

_WORKLOAD: Final = "reserve.dra/reserved-for"
_RUNS_FOR: Final = "local.reserve.dra/run-seconds"
_HALF_A_CPU: Final = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}


def objects() -> Iterator[Json]:
    """Yield claims and pods: shared, from a template, of a workload that is not there, too large; and an owner."""
    yield _claim("train", reserved_for="jobs.batch/train")
    yield {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": PODS, "completions": PODS, "template": {**_pod("train"), "spec": _spec("train")}},
    }
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "own"},
        "spec": {"spec": _devices(1)},
    }
    of_template = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "own"}]}
    yield {"apiVersion": "v1", "kind": "Pod", **_named("own"), "spec": _spec("own") | of_template}
    yield _claim("lost", reserved_for="jobs.batch/nobody")
    yield {"apiVersion": "v1", "kind": "Pod", **_named("lost"), "spec": _spec("lost")}
    yield _claim("large", count=1_000)
    yield {"apiVersion": "v1", "kind": "Pod", **_named("large"), "spec": _spec("large")}
    yield {"apiVersion": "v1", "kind": "Pod", **_named("owner"), "spec": {**_HALF_A_CPU, "schedulerName": PROFILE}}


def reservation() -> Iterator[Json]:
    """Yield a reservation, for the pod that `objects` has."""
    template = {"metadata": {"namespace": NAMESPACE}, "spec": {**_HALF_A_CPU, "schedulerName": PROFILE}}
    owners = [{"object": {"namespace": NAMESPACE, "name": "owner"}}]
    yield {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "held"},
        "spec": {"template": template, "owners": owners, "ttl": "1h"},
    }


def apply(made: Iterator[Json], *, kubeconfig: Path) -> None:
    """Make objects."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(made)}
    kubectl("create", "--filename=-", f"--namespace={NAMESPACE}", kubeconfig=kubeconfig, stdin=json.dumps(listed))


class Scheduler:
    """kube-scheduler as an extender sees it: it asks where to put each pod of its profile, and has it bound there."""

    def __init__(self, port: int, *, kubeconfig: Path, nodes: Sequence[str]) -> None:
        self._port, self._kubeconfig, self._nodes = port, kubeconfig, list(nodes)

    def place(self) -> list[str]:
        """Bind the pods that wait for us, as far as the extender lets us; return their names."""
        mine = (pod for pod in self._pods() if pod["spec"].get("schedulerName") == PROFILE)
        return [pod["metadata"]["name"] for pod in mine if not pod["spec"].get("nodeName") and self._bound(pod)]

    def preempt(self) -> None:
        """Ask who would have to leave for a pod that fits nowhere."""
        victims = {node: {"Pods": [], "NumPDBViolations": 0} for node in self._nodes}
        self._ask("preempt", {"Pod": self._pods()[0], "NodeNameToMetaVictims": victims})

    def _pods(self) -> list[Json]:
        answer = kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=json", kubeconfig=self._kubeconfig)
        return list(json.loads(answer)["items"])

    def _bound(self, pod: Json) -> bool:
        found = self._ask("filter", {"Pod": pod, "NodeNames": self._nodes})
        if not found["NodeNames"]:
            return False
        scores = self._ask("prioritize", {"Pod": pod, "NodeNames": found["NodeNames"]})
        points = {each["Host"]: each["Score"] for each in scores}  # none without interest to the extender
        best = max(found["NodeNames"], key=lambda node: points.get(node, 0))
        meta = pod["metadata"]
        call = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": best}
        return not self._ask("bind", call).get("Error")

    def _ask(self, verb: str, call: Json) -> Any:
        connection = HTTPConnection(LOOPBACK, self._port, timeout=30)
        try:
            connection.request("POST", f"/{verb}", json.dumps(call), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, text
        return json.loads(text)


def _named(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": NAMESPACE}}


def _pod(name: str) -> Json:
    return {"metadata": {"labels": {"of": name}, "annotations": {_RUNS_FOR: "3"}}}


def _spec(claim: str) -> Json:
    resources = {"claims": [{"name": "gpu"}]}
    return {
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
        "containers": [{"name": "c", "image": "i", "resources": resources}],
    }


def _claim(name: str, *, count: int = 1, reserved_for: str = "") -> Json:
    annotations = {_WORKLOAD: reserved_for} if reserved_for else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "annotations": annotations},
        "spec": _devices(count),
    }


def _devices(count: int) -> Json:
    exactly = {"deviceClassName": DRIVER, "count": count}
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
