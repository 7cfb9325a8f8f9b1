"""Decodes request bodies in Kubernetes' protobuf format, which kubectl's ``create`` commands and Go components send.

Only decoding is implemented: clients that send protobuf also accept JSON. A field is found by its number (numbers.json,
recorded from the .proto files), and decoded by its `Schema`. If protobuf has a message where JSON inlines the fields,
the fields of the message are inlined.
"""

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

import msgspec

from localplane.objects import Object
from localplane.schemas.schema import Schema

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

MAGIC: Final = b"k8s\0"

_MAX_DEPTH: Final = 100
"""Maximum nesting of messages; built-in kinds have about twenty levels."""

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_MAX_VARINT_BYTES: Final = 10

_WireValue: TypeAlias = int | bytes


class ProtobufDecodeError(ValueError):
    """The error of bytes that are not the expected message."""


@cache
def _field_numbers() -> dict[str, dict[int, tuple[str, str]]]:
    raw = resources.files(__package__).joinpath("numbers.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, dict[int, tuple[str, str]]])


def is_supported(schema: Schema) -> bool:
    """Return whether objects of a schema can be decoded from protobuf."""
    return schema.definition in _field_numbers()


def parse_protobuf(raw: bytes, schema: Schema) -> Object:
    """Return the object in a body, with apiVersion and kind; raises `ProtobufDecodeError`."""
    if not raw.startswith(MAGIC):
        raise ProtobufDecodeError(
            f"provided data does not appear to be a protobuf message, expected prefix {list(MAGIC)}"
        )
    envelope = dict(_read_fields(raw[len(MAGIC) :]))
    type_meta = dict(_read_fields(_bytes(envelope.get(1, b""))))
    obj = _decode_message(_bytes(envelope.get(2, b"")), schema, schema.definition, _MAX_DEPTH)
    return {"apiVersion": _text(type_meta.get(1, b"")), "kind": _text(type_meta.get(2, b""))} | obj


def _read_fields(raw: bytes) -> Iterator[tuple[int, _WireValue]]:
    """Yield field numbers and values of a message."""
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        match tag & 7:
            case 0:
                value, at = _read_varint(raw, at)
                yield tag >> 3, value
                continue
            case 1:
                end = at + 8
            case 2:
                size, at = _read_varint(raw, at)
                end = at + size
            case 5:
                end = at + 4
            case kind:
                raise ProtobufDecodeError(f"proto: illegal wireType {kind}")
        if end > len(raw):
            raise ProtobufDecodeError("unexpected EOF")
        yield tag >> 3, raw[at:end]
        at = end


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if at >= len(raw):
            raise ProtobufDecodeError("unexpected EOF")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:  # noqa: PLR2004 - the last one has no upper bit
            return value & (1 << 64) - 1, at
    raise ProtobufDecodeError("proto: integer overflow")


def _decode_message(raw: bytes, schema: Schema, definition: str, depth: int) -> Object:
    """Return a message as an object; fields of `schema` may come from an inlined message of another definition."""
    if depth == 0:
        raise ProtobufDecodeError("exceeded max depth")
    numbers, decoded = _field_numbers().get(definition, {}), {}
    for number, value in _read_fields(raw):
        name, inlined = numbers.get(number, ("", ""))
        if inlined:
            decoded.update(_decode_message(_bytes(value), schema, inlined, depth - 1))
        elif (field := schema.fields.get(name)) is not None:
            _add_field(decoded, name, value, field, depth)
    return decoded


def _add_field(message: Object, name: str, value: _WireValue, schema: Schema, depth: int) -> None:
    """Add a value of a field, which may be repeated, to an object."""
    if schema.type == "array" and schema.items is not None:
        items = message.setdefault(name, [])
        if schema.items.type == "integer" and isinstance(value, bytes):  # packed
            at = 0
            while at < len(value):
                number, at = _read_varint(value, at)
                items.append(_signed(number))
        else:
            items.append(_decode_value(value, schema.items, depth))
    elif schema.is_map and schema.values is not None:
        pair = dict(_read_fields(_bytes(value)))
        empty: _WireValue = b""
        key = _text(pair.get(1, empty))
        message.setdefault(name, {})[key] = _decode_value(pair.get(2, empty), schema.values, depth)
    else:
        message[name] = _decode_value(value, schema, depth)


def _decode_value(value: _WireValue, schema: Schema, depth: int) -> Any:  # noqa: ANN401, PLR0911 - JSON; one for each type
    special = _CUSTOM_DECODERS.get(schema.definition) or _CUSTOM_DECODERS.get(schema.format)
    if special is not None:
        return special(_bytes(value))
    match schema.type:
        case "string":
            return base64.b64encode(_bytes(value)).decode() if schema.format == "byte" else _text(value)
        case "integer":
            return _signed(_integer(value))
        case "boolean":
            return bool(_integer(value))
        case "number":
            raw = _bytes(value)
            return struct.unpack("<d" if len(raw) == 8 else "<f", raw)[0]  # noqa: PLR2004 - a double
        case "array" if schema.items is not None:  # a list in a map, which protobuf wraps in a message
            return [_decode_value(item, schema.items, depth) for _, item in _read_fields(_bytes(value))]
        case _:
            return _decode_message(_bytes(value), schema, schema.definition, depth - 1)


def _bytes(value: _WireValue) -> bytes:
    if isinstance(value, int):
        raise ProtobufDecodeError("proto: wrong wireType")
    return value


def _integer(value: _WireValue) -> int:
    if isinstance(value, bytes):
        raise ProtobufDecodeError("proto: wrong wireType")
    return value


def _text(value: _WireValue) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as error:
        raise ProtobufDecodeError("proto: invalid UTF-8") from error


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _quantity(raw: bytes) -> str:
    return _text(dict(_read_fields(raw)).get(1, b""))


def _int_or_string(raw: bytes) -> int | str:
    fields = dict(_read_fields(raw))
    return _text(fields.get(3, b"")) if fields.get(1, 0) == 1 else _signed(_integer(fields.get(2, 0)))


def _timestamp(raw: bytes) -> datetime | None:
    fields = dict(_read_fields(raw))
    if not fields:
        return None
    seconds, nanoseconds = (_signed(_integer(fields.get(number, 0))) for number in (1, 2))
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError as error:
        raise ProtobufDecodeError("a time out of range") from error


def _time(raw: bytes) -> str | None:
    instant = _timestamp(raw)
    return None if instant is None else instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(raw: bytes) -> str | None:
    instant = _timestamp(raw)
    return None if instant is None else instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _json(raw: bytes) -> Any:  # noqa: ANN401 - it is any JSON
    text = dict(_read_fields(raw)).get(1, b"")
    try:
        return msgspec.json.decode(_bytes(text)) if text else None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtobufDecodeError(str(error)) from error


_CUSTOM_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _json,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _json,
}
"""Decoders of types with their own JSON encoding, by OpenAPI name or format."""
