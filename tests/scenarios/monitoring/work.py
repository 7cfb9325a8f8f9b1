"""What keeps our processes busy while Prometheus looks: every kind of thing that metrics tell about, in small."""

from __future__ import annotations

import json
import ssl
from http.client import HTTPSConnection
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Json = dict[str, Any]

NAMESPACE: Final = "default"
DRIVER: Final = "gpu.reserve.dra"
PROFILE: Final = "koord-scheduler"

PODS: Final = 300
"""Of one claim: more than its list holds, so that some wait for a slot."""

CROWD: Final = "crowd"
COPIES: Final = 4

_WORKLOAD: Final = "reserve.dra/reserved-for"
_RUNS_FOR: Final = "local.reserve.dra/run-seconds"
_HALF_A_CPU: Final = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}


def objects() -> Iterator[Json]:
    """Yield claims and pods: shared, from a template, of a lost workload, idle, too large; and an owner."""
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
    yield _claim("kept", count=2)
    yield {"apiVersion": "v1", "kind": "Pod", **_named("kept"), "spec": _spec("kept") | {"restartPolicy": "Always"}}
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


def batch_pods(nodes: Iterable[str]) -> Iterator[Json]:
    """Yield a batch pod for each node, which is there already."""
    amounts = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]
    for node in nodes:
        labels = {"koordinator.sh/qosClass": "BE"}
        metadata = {"name": batch_pod_name(node), "namespace": NAMESPACE, "labels": labels}
        spec = {"nodeName": node, "containers": containers}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def batch_pod_name(node: str) -> str:
    """Return the name of the batch pod of a node."""
    return f"batch-{node}"


def uid_of(pod: str, *, kubeconfig: Path) -> str:
    """Return the uid of a pod."""
    output = "--output=jsonpath={.metadata.uid}"
    return kubectl("get", "pod", pod, f"--namespace={NAMESPACE}", output, kubeconfig=kubeconfig)


def crowd() -> Iterator[Json]:
    """Yield copies of a pod, which RemoveDuplicates spreads over both nodes, and the budget that does not let it."""
    selected = {"app": CROWD}
    template = {"metadata": {"labels": selected}, "spec": {**_HALF_A_CPU, "schedulerName": PROFILE}}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        **_named(CROWD),
        "spec": {"replicas": COPIES, "selector": {"matchLabels": selected}, "template": template},
    }
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        **_named(CROWD),
        "spec": {"minAvailable": COPIES, "selector": {"matchLabels": selected}},
    }


def migration(pod: str) -> Iterator[Json]:
    """Yield the wish of a person that a pod moves."""
    yield {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "wish"},
        "spec": {"podRef": {"namespace": NAMESPACE, "name": pod}},
    }


class Client:
    """A client of one of our servers."""

    def __init__(self, port: int, certificates: Mapping[str, Path]) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=certificates["extender-ca.crt"])
        self._tls.load_cert_chain(certificates["extender-client.crt"], certificates["extender-client.key"])

    def ask(self, method: str, path: str, content: Json | None = None) -> bytes:
        """Return the answer to a request."""
        connection = HTTPSConnection(LOOPBACK, self._port, timeout=30, context=self._tls)
        try:
            body = None if content is None else json.dumps(content)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, text
        return text


class Scheduler:
    """kube-scheduler as an extender sees it: it asks where to put each pod of its profile, and has it bound there."""

    def __init__(self, extender: Client, *, kubeconfig: Path, nodes: Sequence[str]) -> None:
        self._extender, self._kubeconfig, self._nodes = extender, kubeconfig, list(nodes)

    def place(self, *, on: Sequence[str] = ()) -> list[str]:
        """Bind the pods that wait for us where the extender lets us, `on` some nodes or any; return their names."""
        mine = (pod for pod in self._pods() if pod["spec"].get("schedulerName") == PROFILE)
        nodes = list(on) or self._nodes
        return [pod["metadata"]["name"] for pod in mine if not pod["spec"].get("nodeName") and self._bound(pod, nodes)]

    def preempt(self) -> None:
        """Ask who would have to leave for a pod that fits nowhere."""
        victims = {node: {"Pods": [], "NumPDBViolations": 0} for node in self._nodes}
        self._ask("preempt", {"Pod": self._pods()[0], "NodeNameToMetaVictims": victims})

    def _pods(self) -> list[Json]:
        answer = kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=json", kubeconfig=self._kubeconfig)
        return list(json.loads(answer)["items"])

    def _bound(self, pod: Json, nodes: list[str]) -> bool:
        filtered = self._ask("filter", {"Pod": pod, "NodeNames": nodes})
        if not filtered["NodeNames"]:
            return False
        scores = self._ask("prioritize", {"Pod": pod, "NodeNames": filtered["NodeNames"]})
        points = {each["Host"]: each["Score"] for each in scores}  # none without interest to the extender
        best = max(filtered["NodeNames"], key=lambda node: points.get(node, 0))
        meta = pod["metadata"]
        call = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": best}
        return not self._ask("bind", call).get("Error")

    def _ask(self, verb: str, call: Json) -> Any:
        return json.loads(self._extender.ask("POST", f"/{verb}", call))


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
