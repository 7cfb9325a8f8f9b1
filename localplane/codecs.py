"""Decodes the bodies of writes strictly: a `KindCodec` decodes the objects of one kind and reports their errors.

``fieldValidation`` selects how unknown and duplicate fields are treated: dropped silently, dropped with a warning (the
default), or refused with 400. Objects of custom kinds have typed metadata; their other fields follow the schema of the
definition, and validation reports wrong values.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeAlias

from localplane import status_errors
from localplane.kinds.kind import Kind
from localplane.objects import Object, encode
from localplane.schemas import body_parser, go_decoder, protobuf
from localplane.schemas.body_parser import BodySyntaxError
from localplane.schemas.builtin_schemas import OBJECT_META, BuiltinSchemas, Dialect, load_builtin_schemas
from localplane.schemas.go_decoder import UnmarshalTypeError, format_as_go, json_type_name
from localplane.schemas.scalars import ScalarDecodeError
from localplane.schemas.schema import Schema
from localplane.status_errors import FieldError, FieldErrorType, StatusError

YAML_MEDIA_TYPE: Final = "application/yaml"
ACCEPTED_MEDIA_TYPES: Final = ("application/json", YAML_MEDIA_TYPE, protobuf.MEDIA_TYPE)
"""Accepted content types of bodies; custom kinds do not accept protobuf."""

Warnings: TypeAlias = list[str]

_SUMMARY_LENGTH: Final = 30
_TYPE_META_AS_GO: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
SCHEME_LOCATION: Final = 'in scheme "pkg/runtime/scheme.go:111"'


class FieldValidation(StrEnum):
    """Values of ``fieldValidation``: the treatment of unknown and duplicate fields."""

    IGNORE = "Ignore"
    STRICT = "Strict"
    WARN = "Warn"


@dataclass(frozen=True, slots=True)
class PatchContext:
    """The patch behind a result, for the messages of errors about the result."""

    body: Any
    strategic: bool = False

    @property
    def duplicate_field_warnings(self) -> Warnings:
        """Return warnings about duplicate keys in the patch; a plain dict has none (see `body_parser.parse_json`)."""
        return [] if type(self.body) is dict else list(go_decoder.duplicate_fields(self.body))

    def invalid_value(self, result: Object) -> str:
        """Return the invalid value in upstream's message: a strategic patch itself, otherwise the result."""
        return format_as_go(self.body) if self.strategic else encode(result).decode()


@dataclass(frozen=True, slots=True)
class KindCodec:
    """Decodes the objects of one kind."""

    group: str
    version: str
    kind: str
    schema: Schema
    builtin_schemas: BuiltinSchemas = field(repr=False)
    is_custom: bool = False

    @property
    def api_version(self) -> str:
        """Return the apiVersion of the kind's objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def decode(self, raw: bytes, validation: FieldValidation, *, content_type: str = "") -> tuple[Object, Warnings]:
        """Return the object in the body of a POST or PUT, and warnings; raises `StatusError`."""
        value: Any
        warnings: Warnings = []
        try:
            if content_type == protobuf.MEDIA_TYPE:
                value = self._from_protobuf(raw)
            elif content_type == YAML_MEDIA_TYPE:
                value, warnings = body_parser.parse_yaml(raw)
            else:
                value = body_parser.parse_json(raw)
        except BodySyntaxError as error:
            syntax = "" if content_type in ACCEPTED_MEDIA_TYPES[1:] else "couldn't get version/kind; json parse error: "
            raise self._unrecognized_error(f"{syntax}{error}", raw) from None
        obj = self._check_type_meta({} if value is None else value, raw)
        return self._apply_field_validation(*self.normalize(obj), warnings, validation)

    def _from_protobuf(self, raw: bytes) -> Object:
        if self.is_custom or not protobuf.is_supported(self.schema):
            raise status_errors.unsupported_media_type(ACCEPTED_MEDIA_TYPES[:-1])
        try:
            return protobuf.parse_protobuf(raw, self.schema)
        except protobuf.ProtobufDecodeError as error:
            raise BodySyntaxError(str(error)) from error

    def normalize(self, obj: Object) -> tuple[Object, Warnings]:
        """Return a normalized object, and warnings about unknown and duplicate fields; raises `StatusError` 400."""
        try:
            return self._decode_custom(obj) if self.is_custom else self._decode_builtin(obj)
        except (UnmarshalTypeError, ScalarDecodeError) as error:
            raise self._not_handled_error(str(error)) from None

    def decode_patch_result(
        self, obj: Object, patch: PatchContext, validation: FieldValidation, *, stored: Object | None = None
    ) -> tuple[Object, Warnings]:
        """Return the normalized result of a patch, and warnings; raises `StatusError` 422 if the kind is wrong.

        Parts of the result that are the very same as in ``stored``, the normalized object that was patched, are kept.
        """
        kept = {} if stored is None or self.is_custom else _same_parts(obj, stored)
        changed = {name: part for name, part in obj.items() if name not in kept} if kept else obj
        try:
            decoded, warnings = self._decode_custom(obj) if self.is_custom else self._decode_builtin(changed)
        except UnmarshalTypeError as error:
            raise invalid_patch_result(
                patch.invalid_value(obj), error.conversion_text if patch.strategic else str(error)
            ) from None
        except ScalarDecodeError as error:
            raise invalid_patch_result(patch.invalid_value(obj), str(error)) from None
        type_meta = decoded.get("apiVersion") or self.api_version, decoded.get("kind") or self.kind
        if not self.is_custom and type_meta != (self.api_version, self.kind):
            raise invalid_patch_result(patch.invalid_value(obj), self._no_such_kind(*type_meta))
        warnings = [*patch.duplicate_field_warnings, *(sorted(warnings) if patch.strategic else warnings)]
        if warnings and validation is FieldValidation.STRICT:
            raise invalid_patch_result(patch.invalid_value(obj), f"strict decoding error: {', '.join(warnings)}")
        if kept:  # in the order of the patched object
            parts = {**obj, **decoded, **kept}
            decoded = {name: part for name, part in parts.items() if name in kept or name in decoded}
        return decoded, warnings if validation is FieldValidation.WARN else []

    def _decode_builtin(self, obj: Object) -> tuple[Object, Warnings]:
        warnings: Warnings = []
        return go_decoder.struct_decoder(self.schema).read(obj, "", warnings), warnings

    def _decode_custom(self, obj: Object) -> tuple[Object, Warnings]:
        duplicates = list(go_decoder.duplicate_fields(obj))
        obj = obj if not duplicates else go_decoder.without_duplicates(obj)
        warnings: Warnings = []
        metadata = go_decoder.struct_decoder(self.builtin_schemas.definition(OBJECT_META)).read(
            obj.get("metadata"), "metadata.", warnings
        )
        other_fields = {name: value for name, value in obj.items() if name != "metadata"}
        unknown = [f'unknown field "{path}"' for path in go_decoder.prune_unknown_fields(self.schema, other_fields)]
        return other_fields | {"metadata": metadata}, duplicates + sorted([*warnings, *unknown])

    def _apply_field_validation(
        self, obj: Object, unknown: Warnings, warnings: Warnings, validation: FieldValidation
    ) -> tuple[Object, Warnings]:
        warnings = [*warnings, *unknown]
        if warnings and validation is FieldValidation.STRICT:
            raise self._not_handled_error(f"strict decoding error: {', '.join(warnings)}")
        return obj, warnings if validation is FieldValidation.WARN else []

    def _check_type_meta(self, value: Any, raw: bytes) -> Object:  # noqa: ANN401 - JSON
        """Return the object with apiVersion and kind; raises `StatusError` if the value is no object of the kind."""
        if not isinstance(value, dict):
            error = f"json: cannot unmarshal {json_type_name(value)} into Go value of type {_TYPE_META_AS_GO}"
            raise self._unrecognized_error(f"couldn't get version/kind; json parse error: {error}", raw)
        for name in ("apiVersion", "kind"):
            if not isinstance(value.get(name, ""), str | None):
                error = (
                    f"json: cannot unmarshal {json_type_name(value[name])} into Go struct field .{name} of type string"
                )
                raise self._unrecognized_error(f"couldn't get version/kind; json parse error: {error}", raw)
        version, kind = value.get("apiVersion") or "", value.get("kind") or ""
        if version.count("/") > 1:
            raise self._unrecognized_error(f"unexpected GroupVersion string: {version}", raw)
        if self.is_custom:
            self._check_custom(version, kind, raw)
        else:
            self._check_built_in(version or self.api_version, kind or self.kind)
        value["apiVersion"], value["kind"] = version or self.api_version, kind or self.kind
        return value

    def _check_custom(self, version: str, kind: str, raw: bytes) -> None:
        if not kind:
            text = raw.decode(errors="replace")
            raise self._unrecognized_error(f"Object 'Kind' is missing in '{text}'", raw)
        if version != self.api_version:
            raise status_errors.bad_request(
                f"the API version in the data ({version}) does not match the expected API version ({self.api_version})"
            )

    def _check_built_in(self, version: str, kind: str) -> None:
        if (version, kind) == (self.api_version, self.kind):
            return
        short = version.rpartition("/")[2]
        why = self._no_such_kind(version, kind)
        raise status_errors.bad_request(f'{kind} in version "{short}" cannot be handled as a {self.kind}: {why}')

    def _no_such_kind(self, version: str, kind: str) -> str:
        """Return the reason why an object of another kind cannot be decoded as this kind."""
        group, _, short = version.rpartition("/")
        if self.builtin_schemas.find(group, short, kind) is None:
            return f'no kind "{kind}" is registered for version "{version}" {SCHEME_LOCATION}'
        package = self.group.partition(".")[0] or "core"
        return f"converting ({short}.{kind}) to ({package}.{self.kind}): unknown conversion"

    def _not_handled_error(self, why: str) -> StatusError:
        return status_errors.bad_request(
            f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {why}'
        )

    def _unrecognized_error(self, why: str, raw: bytes) -> StatusError:
        return status_errors.bad_request(
            f"the object provided is unrecognized (must be of type {self.kind}): {why} ({_summarize_body(raw)})"
        )


def _same_parts(obj: Object, stored: Object) -> Object:
    return {name: part for name, part in obj.items() if type(part) is dict and part is stored.get(name)}


def invalid_patch_result(patch: str, why: str) -> StatusError:
    """Return 422 Invalid for a patch whose result is no object of its kind."""
    quoted = patch.replace("\\", "\\\\").replace('"', '\\"')
    return status_errors.invalid(
        "", "", "", [FieldError(FieldErrorType.INVALID, "patch", f'Invalid value: "{quoted}": {why}')]
    )


def _summarize_body(raw: bytes) -> str:
    """Return the beginning of a body: as text if it starts like a JSON object, else in hex."""
    if not raw:
        return "<empty>"
    head, more = raw[:_SUMMARY_LENGTH], " ..." if len(raw) > _SUMMARY_LENGTH else ""
    return (head.decode(errors="replace") if raw[:1] == b"{" else head.hex()) + more


class CodecFactory:
    """Makes the codecs of kinds."""

    def __init__(self, dialect: Dialect) -> None:
        self.builtin_schemas: Final = load_builtin_schemas(dialect)
        self._builtin: Final[dict[tuple[str, str, str], KindCodec]] = {}

    def for_kind(self, kind: Kind) -> KindCodec:
        """Return the codec of a built-in or custom kind."""
        if kind.is_custom:
            schema = kind.schema or _untyped_schema(self.builtin_schemas)
            return KindCodec(kind.group, kind.version, kind.name, schema, self.builtin_schemas, is_custom=True)
        return self.for_builtin(kind.group, kind.version, kind.name)

    def for_builtin(self, group: str, version: str, kind: str) -> KindCodec:
        """Return the codec of a built-in kind, which need not be a resource: ``v1`` Binding, DeleteOptions."""
        codec = self._builtin.get((group, version, kind))
        if codec is None:
            schema = self.builtin_schemas.find(group, version, kind)
            if schema is None:
                raise LookupError(f"no structure of {kind} in {group}/{version}: python -m tests.cluster.schemas")
            codec = self._builtin[group, version, kind] = KindCodec(group, version, kind, schema, self.builtin_schemas)
        return codec


@cache
def _untyped_schema(known: BuiltinSchemas) -> Schema:
    """Return the schema of a custom kind that declares no schema: only metadata is typed."""
    return Schema(type="object", preserve=True, fields={"metadata": known.definition(OBJECT_META)})
