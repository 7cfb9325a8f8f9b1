"""What is filled in where a pod, or the template of one, says nothing."""

from collections.abc import Iterator
from typing import Any, Final

from dra.local.objects import Object

GRACE_SECONDS: Final = 30
SCHEDULER: Final = "default-scheduler"

_TOLERATED_SECONDS: Final = 300
_NODE_TROUBLES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FILE_MODE: Final = 0o644
_COMPUTE: Final = ("cpu", "memory")

_SPEC: Final[dict[str, Any]] = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": GRACE_SECONDS,
    "schedulerName": SCHEDULER,
}
_CONTAINER: Final[dict[str, Any]] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE: Final[dict[str, Any]] = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def containers(spec: Object) -> Iterator[Object]:
    """Yield all containers of a pod, those that start it first."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def template(spec: Object) -> None:
    """Fill in what pods and templates of pods have in common."""
    for name, value in _SPEC.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccount") and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in containers(spec):
        _container(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))
    for volume in spec.get("volumes") or ():
        _volume(volume)


def pod(spec: Object) -> None:
    """Fill in what only pods have; requests follow limits."""
    template(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers(spec):
        resources = container["resources"]
        for name, limit in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)


def admitted(spec: Object) -> None:
    """Fill in what admission does: the service account, and patience with nodes that are lost."""
    account = spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = account
    tolerations = spec.setdefault("tolerations", [])
    for key in _NODE_TROUBLES:
        if not any(_tolerates(each, key) for each in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
            )


def quality(spec: Object) -> str:
    """Return the QoS class: how badly a pod wants its CPUs and its memory."""
    guaranteed, anything = True, False
    for container in containers(spec):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _COMPUTE:
            wanted, limit = requests.get(name), limits.get(name)
            anything = anything or bool(_some(wanted) or _some(limit))
            guaranteed = guaranteed and _some(limit) and limit == (wanted if wanted is not None else limit)
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _some(amount: Any) -> bool:  # noqa: ANN401 - a quantity is a text or a number
    return amount is not None and str(amount) != "0"


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def _container(container: Object) -> None:
    for name, value in _CONTAINER.items():
        container.setdefault(name, value)
    container.setdefault("resources", {})
    _, _, tag = container.get("image", "").rpartition("/")[2].partition(":")
    always = "@" not in container.get("image", "") and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if always else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        if field := (variable.get("valueFrom") or {}).get("fieldRef"):
            field.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is not None:
            for part, value in _PROBE.items():
                probe.setdefault(part, value)
            _http(probe)


def _http(probe: Object) -> None:
    if (get := probe.get("httpGet")) is not None:
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _volume(volume: Object) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for name in ("configMap", "secret", "projected", "downwardAPI"):
        if (source := volume.get(name)) is not None:
            source.setdefault("defaultMode", _FILE_MODE)
    if (path := volume.get("hostPath")) is not None:
        path.setdefault("type", "")
