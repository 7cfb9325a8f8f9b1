"""Defines Nodes, which kubelets create together with the status."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.model import name_validation
from localplane.kinds import columns, field_errors
from localplane.kinds.kind import Kind, Strategy
from localplane.objects import Object, ObjectLister
from localplane.status_errors import FieldError

_ROLE_LABEL_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NOT_READY_TAINT: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_UNKNOWN: Final = "<unknown>"


class NodeStrategy(Strategy):
    """The strategy of Nodes: a kubelet registers its node together with the status."""

    def prepare_for_create(self, obj: Object) -> None:
        """Keep the status of a new node."""

    def admit(self, obj: Object, objects: ObjectLister) -> list[FieldError]:
        """Add the not-ready taint, which keeps pods away; the node lifecycle controller removes it once ready."""
        del objects
        taints = (obj.setdefault("spec", {})).get("taints") or []
        if not any((taint.get("key"), taint.get("effect")) == tuple(_NOT_READY_TAINT.values()) for taint in taints):
            obj["spec"]["taints"] = [*taints, dict(_NOT_READY_TAINT)]
        return []

    def prepare_for_status_update(self, new: Object, old: Object) -> None:
        """Restore only the spec: kubelets also update labels and annotations here."""
        new.pop("spec", None)
        if "spec" in old:
            new["spec"] = old["spec"]

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of taints and addresses."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        taints = spec.get("taints") or []
        causes = field_errors.validate_items("metadata.taints", taints, _validate_taint)  # the path is upstream's
        causes += field_errors.validate_unique(
            "metadata.taints", taints, lambda taint: (taint.get("key"), taint.get("effect"))
        )
        addresses = status.get("addresses") or []
        for index, address in enumerate(addresses):
            if address in addresses[:index]:
                go = {"Type": address.get("type", ""), "Address": address.get("address", "")}
                causes.append(field_errors.duplicate(f"status.addresses[{index}]", go))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update; podCIDRs and providerID can be set only once."""
        causes = self.validate(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        for name, word in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(name) and spec.get(name) != before[name]:
                detail = f'node updates may not change {word} except from "" to valid'
                causes.append(field_errors.forbidden(f"spec.{name}", detail))
        return causes

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support."""
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get nodes``."""
        status = obj.get("status") or {}
        info = status.get("nodeInfo") or {}
        kernel = info.get("kernelVersion") or _UNKNOWN
        if info.get("architecture"):
            kernel += f" ({info['architecture']})"
        return {
            "Status": _status_cell(obj),
            "Roles": columns.or_none(",".join(sorted(_node_roles(obj["metadata"].get("labels") or {})))),
            "Age": columns.age(obj, now),
            "Version": info.get("kubeletVersion", ""),
            "Internal-IP": _find_address(status, "InternalIP"),
            "External-IP": _find_address(status, "ExternalIP"),
            "OS-Image": info.get("osImage") or _UNKNOWN,
            "Kernel-Version": kernel,
            "Container-Runtime": info.get("containerRuntimeVersion") or _UNKNOWN,
        }


def _validate_taint(path: str, taint: Object) -> list[FieldError]:
    key, effect = taint.get("key", ""), taint.get("effect", "")
    causes = field_errors.invalid_for_each(f"{path}.key", key, name_validation.qualified_name(key))
    causes += field_errors.invalid_for_each(
        f"{path}.value", taint.get("value", ""), name_validation.label_value(taint.get("value", ""))
    )
    return causes + field_errors.validate_enum(f"{path}.effect", effect, _TAINT_EFFECTS)


def _status_cell(obj: Object) -> str:
    ready = columns.find_condition((obj.get("status") or {}).get("conditions"), "Ready")
    states = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _node_roles(labels: Mapping[str, str]) -> set[str]:
    roles = {key.removeprefix(_ROLE_LABEL_PREFIX) for key in labels if key.startswith(_ROLE_LABEL_PREFIX)}
    return (roles | {labels.get(_ROLE_LABEL, "")}) - {""}


def _find_address(status: Object, kind: str) -> str:
    addresses = (address.get("address", "") for address in status.get("addresses") or () if address.get("type") == kind)
    return next(addresses, "<none>")


KINDS: Final = (
    Kind(
        plural="nodes",
        name="Node",
        namespaced=False,
        short_names=("no",),
        has_generation=False,
        strategy=NodeStrategy(),
        columns=(
            columns.NAME,
            *columns.strings("Status", "Roles"),
            columns.AGE,
            *columns.strings("Version"),
            *columns.wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
    ),
)
