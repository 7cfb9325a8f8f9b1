"""Computes the cells of ``kubectl get pods``; the Status cell summarizes the states of the containers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from localplane.kinds import columns
from localplane.objects import Object

COLUMNS: Final = (
    columns.NAME,
    *columns.strings("Ready", "Status", "Restarts"),
    columns.AGE,
    *columns.wide("IP", "Node", "Nominated Node", "Readiness Gates"),
)

_FINISHED_PHASES: Final = ("Succeeded", "Failed")


@dataclass
class _ContainerTally:
    """The counts and the status reason collected from container statuses."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last: list[str] = field(default_factory=list)

    def count(self, container: Object) -> None:
        """Add the restarts of a container."""
        self.restarts += container.get("restartCount", 0)
        ended = (container.get("lastState") or {}).get("terminated") or {}
        if ended.get("finishedAt"):
            self.last.append(ended["finishedAt"])


def cells(pod: Object, *, now: datetime) -> Mapping[str, Any]:
    """Return the cells of a pod by column name."""
    spec, status = pod["spec"], pod.get("status") or {}
    conditions = status.get("conditions") or []
    sidecars = {
        container["name"]
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    tally = _ContainerTally(status.get("reason") or status.get("phase", ""))
    if any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in conditions
    ):
        tally.reason = "SchedulingGated"
    initializing = _tally_init_containers(tally, spec, status, sidecars)
    if not initializing or columns.is_condition_true(conditions, "Initialized"):
        if not initializing:
            tally = _ContainerTally(tally.reason, ready=tally.ready)
            for container_status in status.get("initContainerStatuses") or ():
                if container_status.get("name") in sidecars:
                    tally.count(container_status)
        _tally_containers(tally, status)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            tally.reason = "Unknown"
        elif status.get("phase") not in _FINISHED_PHASES:
            tally.reason = "Terminating"
    restarts = str(tally.restarts)
    if tally.restarts and tally.last:
        restarts += f" ({columns.elapsed(max(tally.last), now)} ago)"
    addresses = status.get("podIPs") or [{}]
    return {
        "Ready": f"{tally.ready}/{len(spec.get('containers') or ()) + len(sidecars)}",
        "Status": tally.reason,
        "Restarts": restarts,
        "Age": columns.age(pod, now),
        "IP": columns.or_none(addresses[0].get("ip")),
        "Node": columns.or_none(spec.get("nodeName")),
        "Nominated Node": columns.or_none(status.get("nominatedNodeName")),
        "Readiness Gates": _readiness_gates_cell(spec, conditions),
    }


def _tally_init_containers(tally: _ContainerTally, spec: Object, status: Object, sidecars: set[str]) -> bool:
    """Tally the init containers; return whether the pod is still initializing."""
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        tally.count(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason")
        if ended is not None and not ended.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            tally.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            tally.reason = f"Init:{_termination_reason(ended)}"
        elif waiting and waiting != "PodInitializing":
            tally.reason = f"Init:{waiting}"
        else:
            tally.reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        return True
    return False


def _tally_containers(tally: _ContainerTally, status: Object) -> None:
    """Tally the regular containers of a pod."""
    running, error = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        tally.count(container)
        state = container.get("state") or {}
        if waiting := (state.get("waiting") or {}).get("reason"):
            tally.reason = waiting
        elif (ended := state.get("terminated")) is not None:
            tally.reason = _termination_reason(ended)
            error = tally.reason if ended.get("exitCode") else error
        elif container.get("ready") and state.get("running") is not None:
            running = True
            tally.ready += 1
    if tally.reason == "Completed":
        if running and columns.is_condition_true(status.get("conditions"), "Ready"):
            tally.reason = "Running"
        elif error:
            tally.reason = error
        elif running:
            tally.reason = "NotReady"


def _termination_reason(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _readiness_gates_cell(spec: Object, conditions: list[Object]) -> str:
    gates = spec.get("readinessGates") or []
    if not gates:
        return "<none>"
    return f"{sum(columns.is_condition_true(conditions, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"
