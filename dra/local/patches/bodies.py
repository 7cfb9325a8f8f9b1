"""The bodies of writes, read strictly: a `Codec` knows how the objects of one kind are decoded and what to say of them.

``fieldValidation`` decides what becomes of unknown and repeated fields: dropped in silence, dropped with a warning
(the default), or the reason for a 400. Custom kinds have typed metadata; the rest follows the schema of their
definition, and what is wrong with their values is for validation to say.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeAlias

from dra.local import refusals
from dra.local.kinds.kind import Kind
from dra.local.objects import Object, encode
from dra.local.patches.strategic import printed
from dra.local.refusals import Cause, Fault, Refusal
from dra.local.schemas import decoding, parsing, protobuf
from dra.local.schemas.decoding import Mismatch, word
from dra.local.schemas.parsing import Unreadable
from dra.local.schemas.scalars import Malformed
from dra.local.schemas.schema import Schema
from dra.local.schemas.structures import OBJECT_META, Dialect, Structures, structures

YAML: Final = "application/yaml"
ACCEPTED: Final = ("application/json", YAML, protobuf.MEDIA_TYPE)
"""What is read; custom kinds have no protobuf."""

Warnings: TypeAlias = list[str]

_SUMMARY: Final = 30
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
SCHEME: Final = 'in scheme "pkg/runtime/scheme.go:111"'


class Validation(StrEnum):
    """``fieldValidation``: what becomes of unknown and repeated fields."""

    IGNORE = "Ignore"
    STRICT = "Strict"
    WARN = "Warn"


@dataclass(frozen=True, slots=True)
class Patched:
    """What errors about the result of a patch need to know of the patch."""

    body: Any
    strategic: bool = False

    @property
    def repeated(self) -> Warnings:
        """What it says twice; a plain object says nothing twice (`parsing.parse`)."""
        return [] if type(self.body) is dict else list(decoding.repetitions(self.body))

    def quoted(self, result: Object) -> str:
        """Return what upstream calls the invalid value: a strategic patch itself, of others the result."""
        return printed(self.body) if self.strategic else encode(result).decode()


@dataclass(frozen=True, slots=True)
class Codec:
    """Reads the objects of one kind."""

    group: str
    version: str
    kind: str
    schema: Schema
    structures: Structures = field(repr=False)
    custom: bool = False

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def read(self, raw: bytes, validation: Validation, *, content_type: str = "") -> tuple[Object, Warnings]:
        """Return the object in the body of a POST or PUT; raises `Refusal`."""
        value: Any
        told: Warnings = []
        try:
            if content_type == protobuf.MEDIA_TYPE:
                value = self._from_protobuf(raw)
            elif content_type == YAML:
                value, told = parsing.parse_yaml(raw)
            else:
                value = parsing.parse(raw)
        except Unreadable as error:
            syntax = "" if content_type in ACCEPTED[1:] else "couldn't get version/kind; json parse error: "
            raise self._unrecognized(f"{syntax}{error}", raw) from None
        obj = self._identified({} if value is None else value, raw)
        return self._strictly(*self.conform(obj), told, validation)

    def _from_protobuf(self, raw: bytes) -> Object:
        if self.custom or not protobuf.known(self.schema):
            raise refusals.unsupported_media_type(ACCEPTED[:-1])
        try:
            return protobuf.parse(raw, self.schema)
        except protobuf.Undecodable as error:
            raise Unreadable(str(error)) from error

    def conform(self, obj: Object) -> tuple[Object, Warnings]:
        """Return an object as this server keeps it, and what is unknown or repeated; raises `Refusal` 400."""
        try:
            return self._custom(obj) if self.custom else self._typed(obj)
        except (Mismatch, Malformed) as error:
            raise self._not_handled(str(error)) from None

    def patched(self, obj: Object, patch: Patched, validation: Validation) -> tuple[Object, Warnings]:
        """Return the result of a patch as this server keeps it; raises `Refusal` 422 if it is no object of the kind."""
        try:
            found, told = self._custom(obj) if self.custom else self._typed(obj)
        except Mismatch as error:
            raise unprocessable(patch.quoted(obj), error.converted if patch.strategic else str(error)) from None
        except Malformed as error:
            raise unprocessable(patch.quoted(obj), str(error)) from None
        given = found.get("apiVersion") or self.api_version, found.get("kind") or self.kind
        if not self.custom and given != (self.api_version, self.kind):
            raise unprocessable(patch.quoted(obj), self._no_such_kind(*given))
        told = [*patch.repeated, *(sorted(told) if patch.strategic else told)]
        if told and validation is Validation.STRICT:
            raise unprocessable(patch.quoted(obj), f"strict decoding error: {', '.join(told)}")
        return found, told if validation is Validation.WARN else []

    def _typed(self, obj: Object) -> tuple[Object, Warnings]:
        told: Warnings = []
        return decoding.struct(self.schema).read(obj, "", told), told

    def _custom(self, obj: Object) -> tuple[Object, Warnings]:
        repeated = list(decoding.repetitions(obj))
        obj = obj if not repeated else decoding.unrepeated(obj)
        told: Warnings = []
        metadata = decoding.struct(self.structures.definition(OBJECT_META)).read(obj.get("metadata"), "metadata.", told)
        rest = {name: each for name, each in obj.items() if name != "metadata"}
        unknown = [f'unknown field "{path}"' for path in decoding.leftovers(self.schema, rest)]
        return rest | {"metadata": metadata}, repeated + sorted([*told, *unknown])

    def _strictly(
        self, obj: Object, unknown: Warnings, told: Warnings, validation: Validation
    ) -> tuple[Object, Warnings]:
        told = [*told, *unknown]
        if told and validation is Validation.STRICT:
            raise self._not_handled(f"strict decoding error: {', '.join(told)}")
        return obj, told if validation is Validation.WARN else []

    def _identified(self, value: Any, raw: bytes) -> Object:  # noqa: ANN401 - JSON
        """Return the object with apiVersion and kind; raises `Refusal` if it is none, or another's."""
        if not isinstance(value, dict):
            wrong = f"json: cannot unmarshal {word(value)} into Go value of type {_TYPE_META}"
            raise self._unrecognized(f"couldn't get version/kind; json parse error: {wrong}", raw)
        for name in ("apiVersion", "kind"):
            if not isinstance(value.get(name, ""), str | None):
                wrong = f"json: cannot unmarshal {word(value[name])} into Go struct field .{name} of type string"
                raise self._unrecognized(f"couldn't get version/kind; json parse error: {wrong}", raw)
        version, kind = value.get("apiVersion") or "", value.get("kind") or ""
        if version.count("/") > 1:
            raise self._unrecognized(f"unexpected GroupVersion string: {version}", raw)
        if self.custom:
            self._check_custom(version, kind, raw)
        else:
            self._check_built_in(version or self.api_version, kind or self.kind)
        value["apiVersion"], value["kind"] = version or self.api_version, kind or self.kind
        return value

    def _check_custom(self, version: str, kind: str, raw: bytes) -> None:
        if not kind:
            text = raw.decode(errors="replace")
            raise self._unrecognized(f"Object 'Kind' is missing in '{text}'", raw)
        if version != self.api_version:
            raise refusals.bad_request(
                f"the API version in the data ({version}) does not match the expected API version ({self.api_version})"
            )

    def _check_built_in(self, version: str, kind: str) -> None:
        if (version, kind) == (self.api_version, self.kind):
            return
        short = version.rpartition("/")[2]
        why = self._no_such_kind(version, kind)
        raise refusals.bad_request(f'{kind} in version "{short}" cannot be handled as a {self.kind}: {why}')

    def _no_such_kind(self, version: str, kind: str) -> str:
        """Return why an object of another kind is none of this."""
        group, _, short = version.rpartition("/")
        if self.structures.find(group, short, kind) is None:
            return f'no kind "{kind}" is registered for version "{version}" {SCHEME}'
        package = self.group.partition(".")[0] or "core"
        return f"converting ({short}.{kind}) to ({package}.{self.kind}): unknown conversion"

    def _not_handled(self, why: str) -> Refusal:
        return refusals.bad_request(
            f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {why}'
        )

    def _unrecognized(self, why: str, raw: bytes) -> Refusal:
        return refusals.bad_request(
            f"the object provided is unrecognized (must be of type {self.kind}): {why} ({_summary(raw)})"
        )


def unprocessable(patch: str, why: str) -> Refusal:
    """Return 422 for a patch whose result is no object of its kind."""
    quoted = patch.replace("\\", "\\\\").replace('"', '\\"')
    return refusals.invalid("", "", "", [Cause(Fault.INVALID, "patch", f'Invalid value: "{quoted}": {why}')])


def _summary(raw: bytes) -> str:
    """Return the beginning of a body, as text if it looks like an object."""
    if not raw:
        return "<empty>"
    head, more = raw[:_SUMMARY], " ..." if len(raw) > _SUMMARY else ""
    return (head.decode(errors="replace") if raw[:1] == b"{" else head.hex()) + more


class Codecs:
    """Finds the codec of a kind."""

    def __init__(self, dialect: Dialect) -> None:
        self.structures: Final = structures(dialect)

    def of(self, kind: Kind) -> Codec:
        """Return the codec of the objects of a kind."""
        if kind.custom:
            schema = kind.schema or _anything(self.structures)
            return Codec(kind.group, kind.version, kind.name, schema, self.structures, custom=True)
        return self.built_in(kind.group, kind.version, kind.name)

    def built_in(self, group: str, version: str, kind: str) -> Codec:
        """Return the codec of a built-in kind, also of one that is no resource: ``v1`` Binding, DeleteOptions."""
        schema = self.structures.find(group, version, kind)
        if schema is None:
            raise LookupError(f"no structure of {kind} in {group}/{version}: python -m tests.cluster.schemas")
        return Codec(group, version, kind, schema, self.structures)


@cache
def _anything(known: Structures) -> Schema:
    """Return the schema of a custom kind of which nothing is known but its metadata."""
    return Schema(type="object", preserve=True, fields={"metadata": known.definition(OBJECT_META)})
