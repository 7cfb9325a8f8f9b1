"""Namespaces, and what programs read from the API: ConfigMaps, Secrets, ServiceAccounts."""

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from localplane.kinds import columns, field_errors, name_validation
from localplane.kinds.kind import VERBS, Kind, NoStatusStrategy, Strategy
from localplane.kinds.name_validation import NameFormat
from localplane.kinds.subresource import STATUS, Subresource
from localplane.objects import Object
from localplane.status_errors import FieldError

NAMESPACE_FINALIZER: Final = "kubernetes"
"""In ``spec.finalizers`` of each namespace: its contents must go first."""

_MAX_DATA_BYTES: Final = 1024 * 1024


def new_namespace(name: str) -> Object:
    """Return a namespace to create."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


class NamespaceStrategy(Strategy):
    """A namespace ends in two steps: ``Terminating``, and gone when nobody is left in ``spec.finalizers``."""

    def default(self, obj: Object) -> None:
        """Label it with its name, so that selectors can find it."""
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]

    def prepare_for_create(self, obj: Object) -> None:
        """Begin as active, held by its contents."""
        spec = obj.setdefault("spec", {})
        held = spec.get("finalizers") or []
        spec["finalizers"] = held if NAMESPACE_FINALIZER in held else [*held, NAMESPACE_FINALIZER]
        obj["status"] = {"phase": "Active"}

    def prepare_for_update(self, new: Object, old: Object) -> None:
        """Take back spec and status, which have paths of their own."""
        super().prepare_for_update(new, old)
        new["spec"] = old.get("spec", {})

    def deleting(self, obj: Object) -> None:
        """Let it be emptied."""
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}

    def held(self, obj: Object) -> bool:
        """Whether its contents may still be there."""
        return bool(obj.get("spec", {}).get("finalizers"))

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get namespaces`` shows."""
        return {"Status": obj.get("status", {}).get("phase", ""), "Age": columns.age(obj, now)}

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return what can be selected by."""
        return {"status.phase": obj.get("status", {}).get("phase", "")}


class FinalizeSubresource(Subresource):
    """``namespaces/finalize``: who is done with the contents takes itself out of ``spec.finalizers``."""

    name = "finalize"
    verbs = ("update",)

    def write(self, obj: Object, body: Object) -> None:
        """Take over the finalizers."""
        obj["spec"] = {**obj.get("spec", {}), "finalizers": (body.get("spec") or {}).get("finalizers") or []}


class _DataStrategy(NoStatusStrategy):
    """ConfigMaps and Secrets: keys, a size, and for good once `immutable`."""

    parts: tuple[str, ...]
    whole: str
    """The path that is blamed for the size."""

    def validate(self, obj: Object) -> list[FieldError]:
        """Check keys and size."""
        found: list[FieldError] = []
        size = 0
        for part in self.parts:
            for key, value in (obj.get(part) or {}).items():
                found += field_errors.invalid_for_each(f"{part}[{key}]", key, name_validation.config_map_key(key))
                size += len(value.encode())
        if size > _MAX_DATA_BYTES:
            found.append(field_errors.too_long(self.whole, _MAX_DATA_BYTES))
        return found

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Refuse changes of an immutable one."""
        found = []
        if old.get("immutable"):
            if not new.get("immutable"):
                found.append(field_errors.forbidden("immutable", "field is immutable when `immutable` is set"))
            found += [
                field_errors.forbidden(part, "field is immutable when `immutable` is set")
                for part in self.parts
                if (new.get(part) or {}) != (old.get(part) or {})
            ]
        return found + self.validate(new)


class ConfigMapStrategy(_DataStrategy):
    """Texts and bytes by key."""

    parts = ("data", "binaryData")
    whole = "<nil>"

    def validate(self, obj: Object) -> list[FieldError]:
        """Check that no key is in both parts."""
        both = (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys()
        found = super().validate(obj)
        return found + [
            field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in sorted(both)
        ]

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get configmaps`` shows."""
        return {"Data": sum(len(obj.get(part) or ()) for part in self.parts), "Age": columns.age(obj, now)}


class SecretStrategy(_DataStrategy):
    """Bytes by key, each kind of secret with keys it must have."""

    parts = ("data",)
    whole = "data"

    def default(self, obj: Object) -> None:
        """Turn ``stringData`` into data, for convenience of who writes by hand."""
        texts = obj.pop("stringData", None) or {}
        if texts:
            data = obj.setdefault("data", {})
            data.update({key: b64encode(value.encode()).decode() for key, value in texts.items()})
        obj.setdefault("type", "Opaque")

    def validate(self, obj: Object) -> list[FieldError]:
        """Check the keys that its type needs."""
        data = obj.get("data") or {}
        missing = (key for key in _REQUIRED_SECRET_KEYS.get(obj.get("type", ""), ()) if key not in data)
        return super().validate(obj) + [field_errors.required(f"data[{key}]") for key in missing]

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Keep the type."""
        return field_errors.validate_immutable("type", new.get("type"), old.get("type")) + super().validate_update(
            new, old
        )

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get secrets`` shows."""
        return {"Type": obj.get("type", ""), "Data": len(obj.get("data") or ()), "Age": columns.age(obj, now)}

    def fields(self, obj: Object) -> Mapping[str, str]:
        """Return what can be selected by."""
        return {"type": obj.get("type", "")}


_REQUIRED_SECRET_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


class ServiceAccountStrategy(NoStatusStrategy):
    """Who pods are; without tokens, since nobody checks them here."""

    def cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return what ``kubectl get serviceaccounts`` shows."""
        return {"Secrets": len(obj.get("secrets") or ()), "Age": columns.age(obj, now)}


NAMESPACES: Final = Kind(
    plural="namespaces",
    name="Namespace",
    namespaced=False,
    short_names=("ns",),
    generations=False,
    naming=NameFormat.LABEL,
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
        generations=False,
        strategy=ConfigMapStrategy(),
        columns=(columns.NAME, *columns.strings("Data"), columns.AGE),
    ),
    Kind(
        plural="secrets",
        name="Secret",
        subresources=(),
        generations=False,
        strategy=SecretStrategy(),
        columns=(columns.NAME, *columns.strings("Type", "Data"), columns.AGE),
    ),
    Kind(
        plural="serviceaccounts",
        name="ServiceAccount",
        short_names=("sa",),
        subresources=(),
        generations=False,
        strategy=ServiceAccountStrategy(),
        columns=(columns.NAME, *columns.strings("Secrets"), columns.AGE),
    ),
)
