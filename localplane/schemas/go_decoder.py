"""Decodes JSON objects of built-in kinds as Go's decoder does, with the same warnings and errors.

Unknown fields are dropped and reported, a value of a wrong type ends the decoding, and the result is the object that Go
would encode again: without nulls and empty values that struct tags omit, with empty values that struct tags do not
omit, with quantities and times in canonical form. One deviation: fields without ``omitempty`` that are null in Go
(lists, maps, pointers) are left out.

A type is compiled on first use; decoding a pod then takes about 20 µs.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from localplane.objects import Object
from localplane.schemas import scalars
from localplane.schemas.schema import Omission, Schema

DecodingWarnings: TypeAlias = list[str]
"""Warnings that do not end the decoding: ``unknown field "spec.foo"``."""

ValueDecoder: TypeAlias = Callable[[Any, str, DecodingWarnings], Any]
"""Function that decodes a value; its fields' paths begin with the second argument. May return `OMITTED`."""

OMITTED: Final = object()
"""Marks a field that is not written."""


class UnmarshalTypeError(Exception):
    """The error of a value whose type its field cannot have."""

    def __init__(self, found: str, wanted: str, shape: str = "") -> None:
        super().__init__(found, wanted)
        self.found = found
        self.wanted = wanted
        self.shape = shape
        self.struct = ""
        self.path: list[str] = []

    def __str__(self) -> str:
        where = f"Go struct field {self.struct}.{'.'.join(self.path)} of" if self.path else "Go value of"
        return f"json: cannot unmarshal {self.found} into {where} type {self.wanted}"

    @property
    def conversion_text(self) -> str:
        """Return Go's message for a value from a patched object instead of from JSON text."""
        kind = _GO_KINDS.get(self.found.partition(" ")[0], self.found)
        match self.shape:
            case "":
                return f"unrecognized type: {self.wanted}"
            case "struct":
                return f"cannot restore struct from: {kind}"
            case shape:
                return f"cannot restore {shape} from {kind}"


_GO_KINDS: Final = {"object": "map", "array": "slice", "number": "int64"}


class DuplicateKeys(dict[str, Any]):
    """An object whose text has duplicate keys; the last value of a key counts."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.duplicates: Final = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]

    def plain(self) -> Object:
        """Return the object as a plain one, with each key once at every level."""
        plain: Object = without_duplicates(dict(self))
        return plain


def without_duplicates(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a value without any `DuplicateKeys` inside."""
    if isinstance(value, dict):
        return {key: without_duplicates(item) for key, item in value.items()}
    return [without_duplicates(item) for item in value] if isinstance(value, list) else value


def json_type_name(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return Go's name for the type of a JSON value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def format_as_go(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a value as Go's %v prints it: ``map[a:1 b:[x y]]``."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{format_as_go(item)}' for name, item in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(format_as_go(item) for item in value)}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


class StructDecoder:
    """Decodes objects of one Go struct."""

    __slots__ = ("_absent", "_composites", "_fields", "_name", "_plain", "_scalars", "_schema", "_wanted")

    def __init__(self, schema: Schema) -> None:
        self._schema: Final = schema
        self._name: Final = schema.definition.rpartition(".")[2]
        self._wanted: Final = f"{schema.definition.rpartition('.')[0].rpartition('.')[2]}.{self._name}"
        self._fields: Mapping[str, Schema] | None = None
        self._plain: dict[str, type] = {}
        """String and boolean fields that are omitted when empty: most fields."""
        self._scalars: dict[str, Callable[[Any], Any]] = {}
        self._composites: dict[str, ValueDecoder] = {}
        self._absent: tuple[tuple[str, Callable[[], Any]], ...] = ()
        """Fields that are written even if absent, each with a function that makes its zero value."""

    def read(self, value: Any, prefix: str, warnings: DecodingWarnings) -> Object:  # noqa: ANN401, C901, PLR0912 - one loop, for speed
        """Return the object as Go would encode it again; raises `UnmarshalTypeError` and `ScalarDecodeError`."""
        if self._fields is None:
            self._compile()
        if type(value) is not dict:
            value = self._object(value, prefix, warnings)
        plain, scalar, composite = self._plain, self._scalars, self._composites
        out: Object = {}
        key = ""
        try:
            for key, item in value.items():
                wanted = plain.get(key)
                if wanted is not None:
                    if type(item) is wanted:
                        if item:
                            out[key] = item
                    elif item is not None:
                        raise UnmarshalTypeError(json_type_name(item), self._schema.fields[key].go_type.lstrip("*"))  # noqa: TRY301
                elif (read := composite.get(key)) is not None:
                    decoded = read(item, f"{prefix}{key}", warnings)
                    if decoded is not OMITTED:
                        out[key] = decoded
                elif (take := scalar.get(key)) is not None:
                    if item is not None and (decoded := take(item)) is not OMITTED:
                        out[key] = decoded
                else:
                    warnings.append(f'unknown field "{prefix}{key}"')
        except UnmarshalTypeError as mismatch:
            field = self._schema.fields[key]
            mismatch.path[:0] = [field.embedded_struct, key] if field.embedded_struct else [key]
            mismatch.struct = mismatch.struct or self._name
            raise
        for name, zero in self._absent:
            if name not in out:
                out[name] = zero()
        return out

    def zero(self) -> Object:
        """Return the encoding of the struct's zero value."""
        return self.read({}, "", [])

    def _object(self, value: Any, prefix: str, warnings: DecodingWarnings) -> Object:  # noqa: ANN401
        if value is None:
            return {}
        if isinstance(value, DuplicateKeys):
            known = self._schema.fields
            warnings.extend(f'duplicate field "{prefix}{key}"' for key in value.duplicates if key in known)
            return value
        raise UnmarshalTypeError(json_type_name(value), self._schema.go_type.lstrip("*") or self._wanted, "struct")

    def _compile(self) -> None:
        self._fields = self._schema.fields
        absent: list[tuple[str, Callable[[], Any]]] = []
        for name, field in self._fields.items():
            if (
                field.type in _PLAIN_TYPES
                and not field.format
                and not field.pointer
                and field.omission is not Omission.ALWAYS
            ):
                self._plain[name] = _PLAIN_TYPES[field.type]
            elif _is_composite(field):
                self._composites[name] = _composite_decoder(field)
            else:
                self._scalars[name] = _scalar_decoder(field)
            if (zero := _zero_value(field)) is not None:
                absent.append((name, zero))
        self._absent = tuple(absent)


_PLAIN_TYPES: Final[dict[str, type]] = {"string": str, "boolean": bool}
_EMPTY_VALUES: Final[dict[str, Any]] = {"string": "", "boolean": False, "integer": 0, "number": 0}

_struct_decoders: Final[dict[int, StructDecoder]] = {}


def struct_decoder(schema: Schema) -> StructDecoder:
    """Return the decoder of a type, shared by all fields of that type."""
    decoder = _struct_decoders.get(id(schema))
    if decoder is None:
        decoder = _struct_decoders[id(schema)] = StructDecoder(schema)
    return decoder


def _is_composite(field: Schema) -> bool:
    return field.type in ("object", "array") or _is_raw(field)


def _is_raw(field: Schema) -> bool:
    return field.preserve or not (field.type or field.format)


def _zero_value(field: Schema) -> Callable[[], Any] | None:
    """Return a function that makes the value that Go writes for an absent field, None if the field is omitted."""
    if field.pointer:
        return None
    if field.type == "object" and not field.is_map and not field.preserve:
        return None if field.omission is Omission.ZERO else struct_decoder(field).zero
    if field.format == "date-time":
        return None if field.omission is Omission.ZERO else lambda: None
    if field.omission is not Omission.ALWAYS or _is_raw(field) or field.type in ("object", "array"):
        return None
    if field.format == "byte":
        return None
    empty: Any = {"quantity": "0", "int-or-string": 0}.get(field.format, _EMPTY_VALUES.get(field.type))
    return lambda: empty


def _composite_decoder(field: Schema) -> ValueDecoder:
    """Return the decoder of a field that is a struct, a list, a map or raw JSON."""
    if _is_raw(field):
        return _decode_raw
    if field.type == "array":
        return partial(_decode_list, _element_decoder(field), field)
    if field.is_map:
        return partial(_decode_map, _element_decoder(field), field)
    return partial(_decode_struct, struct_decoder(field).read, field)


def _decode_raw(value: Any, _path: str, _warnings: DecodingWarnings) -> Any:  # noqa: ANN401
    if value is None:
        return OMITTED
    return without_duplicates(value)


def _decode_struct(read: ValueDecoder, field: Schema, value: Any, path: str, warnings: DecodingWarnings) -> Any:  # noqa: ANN401
    if value is None and field.pointer:
        return OMITTED
    decoded = read(value, f"{path}.", warnings)
    return OMITTED if field.omission is Omission.ZERO and decoded == struct_decoder(field).zero() else decoded


def _decode_list(
    element: tuple[Schema, ValueDecoder | None],
    field: Schema,
    value: Any,  # noqa: ANN401
    path: str,
    warnings: DecodingWarnings,
) -> Any:  # noqa: ANN401
    if value is None:
        return OMITTED
    if type(value) is not list:
        raise UnmarshalTypeError(json_type_name(value), field.go_type.lstrip("*"), "slice")
    if not value:
        return OMITTED if field.omission is Omission.EMPTY and not field.pointer else []
    items, read = element
    if read is None:
        return [_decode_element(items, item) for item in value]
    return [read(item, f"{path}[{index}]", warnings) for index, item in enumerate(value)]


def _decode_map(
    element: tuple[Schema, ValueDecoder | None],
    field: Schema,
    value: Any,  # noqa: ANN401
    path: str,
    warnings: DecodingWarnings,
) -> Any:  # noqa: ANN401
    if value is None:
        return OMITTED
    if not isinstance(value, dict):
        raise UnmarshalTypeError(json_type_name(value), field.go_type.lstrip("*"), "map")
    if not value:
        return OMITTED if field.omission is Omission.EMPTY and not field.pointer else {}
    if isinstance(value, DuplicateKeys):
        warnings.extend(f'duplicate field "{path}.{key}"' for key in value.duplicates)
    items, read = element
    if read is None:
        if items.type == "string" and not items.format:
            return {key: item if type(item) is str else _decode_element(items, item) for key, item in value.items()}
        return {key: _decode_element(items, item) for key, item in value.items()}
    return {key: read(item, f"{path}.{key}", warnings) for key, item in value.items()}


def _element_decoder(field: Schema) -> tuple[Schema, ValueDecoder | None]:
    """Return the schema of the elements of a list or a map, and their decoder, None for scalar elements."""
    inner = field.items if field.type == "array" else field.values
    assert inner is not None  # noqa: S101 - a list or a map
    member = _with_go_type(
        inner, _go_element_type(field.go_type) if field.go_type != _RESOURCE_LIST else _RESOURCE_LIST
    )
    if not _is_composite(member):
        return member, None
    if _is_raw(member):
        return member, lambda value, _path, _warnings: without_duplicates(value)
    if member.type == "object" and not member.is_map:
        read = struct_decoder(member).read
        return member, lambda value, path, warnings: read(value, f"{path}.", warnings)
    inner_read = _composite_decoder(member)
    empty: Any = [] if member.type == "array" else {}

    def whole(value: Any, path: str, warnings: DecodingWarnings) -> Any:  # noqa: ANN401 - a list in a list
        decoded = inner_read(value, path, warnings)
        return empty.copy() if decoded is OMITTED else decoded

    return member, whole


def _go_element_type(go: str) -> str:
    """Return the element type of ``[]v1.Container`` or ``map[string]string``; empty for a named Go type."""
    outer = go.lstrip("*")
    if outer.startswith("[]"):
        return outer[2:]
    return outer.partition("]")[2] if outer.startswith("map[") else ""


def _with_go_type(schema: Schema, go: str) -> Schema:
    key = (id(schema), go)
    typed = _typed_schemas.get(key)
    if typed is None:
        typed = _typed_schemas[key] = Schema(
            type=schema.type,
            format=schema.format,
            fields=schema.fields,
            values=schema.values,
            items=schema.items,
            preserve=schema.preserve,
            definition=schema.definition,
            go_type=go or _GO_TYPES.get((schema.type, schema.format), ""),
        )
    return typed


_typed_schemas: Final[dict[tuple[int, str], Schema]] = {}
_GO_TYPES: Final = {
    ("string", ""): "string",
    ("string", "byte"): "[]uint8",
    ("boolean", ""): "bool",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
}


def _decode_element(schema: Schema, value: Any) -> Any:  # noqa: ANN401
    """Return a scalar element of a list or a map; null becomes the type's zero value."""
    if value is None:
        return {"quantity": "0", "int-or-string": 0, "date-time": None}.get(
            schema.format, _EMPTY_VALUES.get(schema.type)
        )
    decoded = _scalar_decoder(schema)(value)
    return _EMPTY_VALUES.get(schema.type) if decoded is OMITTED else decoded


_scalar_decoders: Final[dict[int, Callable[[Any], Any]]] = {}


def _scalar_decoder(field: Schema) -> Callable[[Any], Any]:
    """Return the decoder of a scalar field."""
    decoder = _scalar_decoders.get(id(field))
    if decoder is None:
        keeps = _keeps_empty(field) or field.format == "quantity"
        decoder = _scalar_decoders[id(field)] = partial(
            _decode_scalar, _scalar_converter(field, field.go_type.lstrip("*")), keeps
        )
    return decoder


def _keeps_empty(field: Schema) -> bool:
    """Return whether Go writes the field's empty value."""
    return field.pointer or field.omission is Omission.ALWAYS


def _decode_scalar(convert: Callable[[Any], Any], kept: bool, value: Any) -> Any:  # noqa: ANN401, FBT001 - partly applied, for speed
    if value is None:
        return OMITTED
    converted = convert(value)
    return converted if converted or kept else OMITTED


def _scalar_converter(field: Schema, go: str) -> Callable[[Any], Any]:  # noqa: PLR0911 - one case for each format
    """Return a function that converts a scalar to Go's encoding of the scalar, or raises."""
    match field.type, field.format:
        case _, "quantity":
            return scalars.decode_resource_quantity if go == _RESOURCE_LIST else scalars.decode_quantity
        case _, "int-or-string":
            return lambda value: value if type(value) is str else _decode_integer("int32", value)
        case "string", "date-time":
            return partial(
                _decode_time,
                scalars.decode_micro_time if field.definition.endswith("MicroTime") else scalars.decode_time,
            )
        case "string", "byte":
            return lambda value: scalars.decode_base64(_require_type(str, go, value))
        case "string", _:
            return partial(_require_type, str, go or "string")
        case "boolean", _:
            return partial(_require_type, bool, go or "bool")
        case "integer", kind:
            return partial(_decode_integer, go or kind or "int64")
        case "number", _:
            return lambda value: value if type(value) is int else _require_type(float, go or "float64", value)
        case _:
            return lambda value: value


def _require_type(wanted: type, go: str, value: Any) -> Any:  # noqa: ANN401
    if type(value) is not wanted:
        raise UnmarshalTypeError(json_type_name(value), go)
    return value


def _decode_time(read: Callable[[str], str], value: Any) -> str:  # noqa: ANN401
    return read(value) if type(value) is str else _require_type(str, "string", value)


_RESOURCE_LIST: Final = "v1.ResourceList"

_RANGES: Final = {"int32": scalars.INT32, "uint16": range(2**16), "uint32": range(2**32), "uint8": range(2**8)}


def _decode_integer(go: str, value: Any) -> int:  # noqa: ANN401
    if type(value) is int:
        if value in _RANGES.get(go, scalars.INT64):
            return value
        raise UnmarshalTypeError(f"number {value}", go)
    raise UnmarshalTypeError(f"number {value}" if type(value) is float else json_type_name(value), go)


def prune_unknown_fields(schema: Schema, value: Any, prefix: str = "") -> Iterator[str]:  # noqa: ANN401
    """Drop fields that a structural schema does not declare; yield their paths."""
    if isinstance(value, dict):
        for key in list(value):
            field = schema.fields.get(key) or schema.values
            if field is not None:
                yield from prune_unknown_fields(field, value[key], f"{prefix}{key}.")
            elif schema.embedded and key in ("apiVersion", "kind", "metadata"):
                continue
            elif not schema.preserve:
                del value[key]
                yield f"{prefix}{key}"
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            yield from prune_unknown_fields(schema.items, item, f"{prefix.removesuffix('.')}[{index}].")


def duplicate_fields(value: Any, prefix: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield a warning for each duplicate key in a value of any shape."""
    if isinstance(value, dict):
        if isinstance(value, DuplicateKeys):
            yield from (f'duplicate field "{prefix}{key}"' for key in value.duplicates)
        for key, item in value.items():
            yield from duplicate_fields(item, f"{prefix}{key}.")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from duplicate_fields(item, f"{prefix.removesuffix('.')}[{index}].")
