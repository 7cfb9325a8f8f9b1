"""Defines Namespaces, ConfigMaps, Secrets and ServiceAccounts."""

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.model import name_validation
from dra.model.name_validation import NameFormat
from localplane.kinds import columns, field_errors
from localplane.kinds.kind import VERBS, Kind, NoStatusStrategy, Strategy
from localplane.kinds.subresource import STATUS, Subresource
from localplane.objects import Object
from localplane.status_errors import FieldError

NAMESPACE_FINALIZER: Final = "kubernetes"
"""Entry in ``spec.finalizers`` of each namespace, which is removed after the contents of the namespace."""

_MAX_DATA_BYTES: Final = 1024 * 1024


def new_namespace(name: str) -> Object:
    """Return a namespace to create."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


class NamespaceStrategy(Strategy):
    """The strategy of Namespaces, which are ``Terminating`` until ``spec.finalizers`` is empty."""

    def default(self, obj: Object) -> None:
        """Label the namespace with its name, for namespace selectors."""
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]

    def prepare_for_create(self, obj: Object) -> None:
        """Set phase Active and the finalizer that waits for the contents."""
        spec = obj.setdefault("spec", {})
        held = spec.get("finalizers") or []
        spec["finalizers"] = held if NAMESPACE_FINALIZER in held else [*held, NAMESPACE_FINALIZER]
        obj["status"] = {"phase": "Active"}

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Keep the old spec and status, which only subresources change."""
        super().prepare_for_update(new, old)
        new["spec"] = old.get("spec", {})

    def begin_deletion(self, obj: Object) -> None:
        """Set phase Terminating, so that the namespace controller deletes the contents."""
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}

    def blocks_deletion(self, obj: Object) -> bool:
        """Return whether the contents of the namespace may still exist."""
        return bool(obj.get("spec", {}).get("finalizers"))

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get namespaces``."""
        return {"Status": obj.get("status", {}).get("phase", ""), "Age": columns.age(obj, now)}

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support."""
        return {"status.phase": obj.get("status", {}).get("phase", "")}


class FinalizeSubresource(Subresource):
    """The subresource ``namespaces/finalize``, by which a controller removes its entry from ``spec.finalizers``."""

    name = "finalize"
    verbs = ("update",)

    def write(self, obj: Object, body: Object) -> None:
        """Set ``spec.finalizers`` to those of the body."""
        obj["spec"] = {**obj.get("spec", {}), "finalizers": (body.get("spec") or {}).get("finalizers") or []}


class _DataStrategy(NoStatusStrategy):
    """The common strategy of ConfigMaps and Secrets: valid keys, limited size, no changes once `immutable`."""

    data_fields: tuple[str, ...]
    size_path: str
    """Path of the error if the data is too large."""

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of keys and size."""
        causes: list[FieldError] = []
        size = 0
        for part in self.data_fields:
            for key, value in (obj.get(part) or {}).items():
                causes += field_errors.invalid_for_each(f"{part}[{key}]", key, name_validation.config_map_key(key))
                size += len(value.encode())
        if size > _MAX_DATA_BYTES:
            causes.append(field_errors.too_long(self.size_path, _MAX_DATA_BYTES))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of changes to an immutable object, and of the new data."""
        causes = []
        if old.get("immutable"):
            if not new.get("immutable"):
                causes.append(field_errors.forbidden("immutable", "field is immutable when `immutable` is set"))
            causes += [
                field_errors.forbidden(part, "field is immutable when `immutable` is set")
                for part in self.data_fields
                if (new.get(part) or {}) != (old.get(part) or {})
            ]
        return causes + self.validate(new)


class ConfigMapStrategy(_DataStrategy):
    """The strategy of ConfigMaps: strings and bytes by key."""

    data_fields = ("data", "binaryData")
    size_path = "<nil>"

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of the data, and of keys that are in both parts."""
        both = (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys()
        causes = super().validate(obj)
        return causes + [
            field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in sorted(both)
        ]

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get configmaps``."""
        return {"Data": sum(len(obj.get(part) or ()) for part in self.data_fields), "Age": columns.age(obj, now)}


class SecretStrategy(_DataStrategy):
    """The strategy of Secrets: bytes by key, with required keys for each secret type."""

    data_fields = ("data",)
    size_path = "data"

    def default(self, obj: Object) -> None:
        """Convert ``stringData`` to data, and default the type to Opaque."""
        texts = obj.pop("stringData", None) or {}
        if texts:
            data = obj.setdefault("data", {})
            data.update({key: b64encode(value.encode()).decode() for key, value in texts.items()})
        obj.setdefault("type", "Opaque")

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of the data, and of missing keys that the secret type requires."""
        data = obj.get("data") or {}
        missing = (key for key in _REQUIRED_SECRET_KEYS.get(obj.get("type", ""), ()) if key not in data)
        return super().validate(obj) + [field_errors.required(f"data[{key}]") for key in missing]

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of an update; the type is immutable."""
        return field_errors.validate_immutable("type", new.get("type"), old.get("type")) + super().validate_update(
            new, old
        )

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get secrets``."""
        return {"Type": obj.get("type", ""), "Data": len(obj.get("data") or ()), "Age": columns.age(obj, now)}

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors support."""
        return {"type": obj.get("type", "")}


_REQUIRED_SECRET_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


class ServiceAccountStrategy(NoStatusStrategy):
    """The strategy of ServiceAccounts, which have no tokens because the plane does not authenticate pods."""

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get serviceaccounts``."""
        return {"Secrets": len(obj.get("secrets") or ()), "Age": columns.age(obj, now)}


NAMESPACES: Final = Kind(
    plural="namespaces",
    name="Namespace",
    namespaced=False,
    short_names=("ns",),
    has_generation=False,
    name_format=NameFormat.LABEL,
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    subresources=(STATUS, FinalizeSubresource()),
    strategy=NamespaceStrategy(),
    columns=(columns.NAME, *columns.strings("Status"), columns.AGE),
)
KINDS: Final = (
    NAMESPACES,
    Kind(
        plural="configmaps",
        name="ConfigMap",
        short_names=("cm",),
        subresources=(),
        has_generation=False,
        strategy=ConfigMapStrategy(),
        columns=(columns.NAME, *columns.strings("Data"), columns.AGE),
    ),
    Kind(
        plural="secrets",
        name="Secret",
        subresources=(),
        has_generation=False,
        strategy=SecretStrategy(),
        columns=(columns.NAME, *columns.strings("Type", "Data"), columns.AGE),
    ),
    Kind(
        plural="serviceaccounts",
        name="ServiceAccount",
        short_names=("sa",),
        subresources=(),
        has_generation=False,
        strategy=ServiceAccountStrategy(),
        columns=(columns.NAME, *columns.strings("Secrets"), columns.AGE),
    ),
)
