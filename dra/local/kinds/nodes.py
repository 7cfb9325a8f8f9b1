"""Nodes: made by their kubelets, status included."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.local.kinds import causes, columns, names
from dra.local.kinds.kind import Kind, Others, Strategy
from dra.local.objects import Object
from dra.local.refusals import Cause

_ROLE: Final = "node-role.kubernetes.io/"
_OLD_ROLE: Final = "kubernetes.io/role"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NEW: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_UNKNOWN: Final = "<unknown>"


class NodeStrategy(Strategy):
    """A kubelet registers its node together with the status."""

    def prepare_create(self, obj: Object) -> None:
        """Keep the status."""

    def admit(self, obj: Object, others: Others) -> list[Cause]:
        """Let no pod come before the node has been seen to be ready; who looks after nodes takes the taint away."""
        del others
        taints = (obj.setdefault("spec", {})).get("taints") or []
        if not any((each.get("key"), each.get("effect")) == tuple(_NEW.values()) for each in taints):
            obj["spec"]["taints"] = [*taints, dict(_NEW)]
        return []

    def prepare_status(self, new: Object, old: Object) -> None:
        """Take back the spec only: kubelets send labels and annotations along."""
        new.pop("spec", None)
        if "spec" in old:
            new["spec"] = old["spec"]

    def validate(self, obj: Object) -> list[Cause]:
        """Check taints and addresses."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        taints = spec.get("taints") or []
        found = causes.each("metadata.taints", taints, _taint)  # the path is upstream's
        found += causes.unique("metadata.taints", taints, lambda each: (each.get("key"), each.get("effect")))
        addresses = status.get("addresses") or []
        for index, address in enumerate(addresses):
            if address in addresses[:index]:
                go = {"Type": address.get("type", ""), "Address": address.get("address", "")}
                found.append(causes.duplicate(f"status.addresses[{index}]", go))
        return found

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Keep what a node gets only once."""
        found = self.validate(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        for name, word in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(name) and spec.get(name) != before[name]:
                detail = f'node updates may not change {word} except from "" to valid'
                found.append(causes.forbidden(f"spec.{name}", detail))
        return found

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return what can be selected by."""
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get nodes`` shows."""
        status = obj.get("status") or {}
        info = status.get("nodeInfo") or {}
        kernel = info.get("kernelVersion") or _UNKNOWN
        if info.get("architecture"):
            kernel += f" ({info['architecture']})"
        return {
            "Status": _state(obj),
            "Roles": columns.or_none(",".join(sorted(_roles(obj["metadata"].get("labels") or {})))),
            "Age": columns.age(obj, now),
            "Version": info.get("kubeletVersion", ""),
            "Internal-IP": _address(status, "InternalIP"),
            "External-IP": _address(status, "ExternalIP"),
            "OS-Image": info.get("osImage") or _UNKNOWN,
            "Kernel-Version": kernel,
            "Container-Runtime": info.get("containerRuntimeVersion") or _UNKNOWN,
        }


def _taint(path: str, taint: Object) -> list[Cause]:
    key, effect = taint.get("key", ""), taint.get("effect", "")
    found = causes.texts(f"{path}.key", key, names.key(key))
    found += causes.texts(f"{path}.value", taint.get("value", ""), names.label_value(taint.get("value", "")))
    return found + causes.one_of(f"{path}.effect", effect, _EFFECTS)


def _state(obj: Object) -> str:
    ready = columns.condition((obj.get("status") or {}).get("conditions"), "Ready")
    states = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _roles(labels: Mapping[str, str]) -> set[str]:
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    return (roles | {labels.get(_OLD_ROLE, "")}) - {""}


def _address(status: Object, kind: str) -> str:
    found = (each.get("address", "") for each in status.get("addresses") or () if each.get("type") == kind)
    return next(found, "<none>")


KINDS: Final = (
    Kind(
        plural="nodes",
        name="Node",
        namespaced=False,
        short_names=("no",),
        generations=False,
        strategy=NodeStrategy(),
        columns=(
            columns.NAME,
            *columns.plain("Status", "Roles"),
            columns.AGE,
            *columns.plain("Version"),
            *columns.wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
    ),
)
