"""Sets the defaults of pods and pod templates."""

from collections.abc import Iterator
from typing import Any, Final

from localplane.objects import Object

DEFAULT_TERMINATION_GRACE_PERIOD: Final = 30
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

_DEFAULT_TOLERATION_SECONDS: Final = 300
_TOLERATED_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FILE_MODE: Final = 0o644
_QOS_RESOURCES: Final = ("cpu", "memory")

_SPEC_DEFAULTS: Final[dict[str, Any]] = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_TERMINATION_GRACE_PERIOD,
    "schedulerName": DEFAULT_SCHEDULER_NAME,
}
_CONTAINER_DEFAULTS: Final[dict[str, Any]] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE_DEFAULTS: Final[dict[str, Any]] = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def all_containers(spec: Object) -> Iterator[Object]:
    """Yield all containers of a pod, init containers first."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def set_template_defaults(spec: Object) -> None:
    """Set the defaults that pods and pod templates have in common."""
    for name, value in _SPEC_DEFAULTS.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccount") and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in all_containers(spec):
        _set_container_defaults(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))
    for volume in spec.get("volumes") or ():
        _set_volume_defaults(volume)


def set_pod_defaults(spec: Object) -> None:
    """Set the defaults of pods; requests default to limits."""
    set_template_defaults(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in all_containers(spec):
        resources = container["resources"]
        for name, limit in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)


def set_admission_defaults(spec: Object) -> None:
    """Set the defaults of admission: the service account, and tolerations of not-ready and unreachable nodes."""
    account = spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = account
    tolerations = spec.setdefault("tolerations", [])
    for key in _TOLERATED_TAINTS:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _DEFAULT_TOLERATION_SECONDS,
                }
            )


def compute_qos_class(spec: Object) -> str:
    """Return the QoS class of a pod, from its CPU and memory requests and limits."""
    guaranteed, anything = True, False
    for container in all_containers(spec):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _QOS_RESOURCES:
            wanted, limit = requests.get(name), limits.get(name)
            anything = anything or bool(_is_nonzero(wanted) or _is_nonzero(limit))
            guaranteed = guaranteed and _is_nonzero(limit) and limit == (wanted if wanted is not None else limit)
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _is_nonzero(amount: Any) -> bool:  # noqa: ANN401 - a quantity is a text or a number
    return amount is not None and str(amount) != "0"


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def _set_container_defaults(container: Object) -> None:
    for name, value in _CONTAINER_DEFAULTS.items():
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
            for part, value in _PROBE_DEFAULTS.items():
                probe.setdefault(part, value)
            _set_http_get_defaults(probe)


def _set_http_get_defaults(probe: Object) -> None:
    if (get := probe.get("httpGet")) is not None:
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _set_volume_defaults(volume: Object) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for name in ("configMap", "secret", "projected", "downwardAPI"):
        if (source := volume.get(name)) is not None:
            source.setdefault("defaultMode", _FILE_MODE)
    if (path := volume.get("hostPath")) is not None:
        path.setdefault("type", "")
