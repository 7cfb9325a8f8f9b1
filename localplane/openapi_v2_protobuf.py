"""Encodes an OpenAPI v2 document as gnostic's ``openapi.v2.Document``, the only form of v2 that kubectl reads.

Only encoding is implemented, and only for the fields that `localplane.openapi_v2` produces. Field numbers are those of
gnostic's OpenAPIv2.proto. An Any value is written as YAML, of which JSON is a subset.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from localplane.objects import Object, encode

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ACCEPTED_MEDIA_TYPES: Final = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
"""Media types in clients' Accept headers; newer clients use ``@``."""

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_LOW_BITS: Final = 0x7F

_SCHEMA_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_NUMBERS: Final = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_SCHEMA_COUNTS: Final = {
    "exclusiveMaximum": 8,
    "exclusiveMinimum": 10,
    "uniqueItems": 16,
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "maxProperties": 17,
    "minProperties": 18,
}
_VERBS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_PLACES: Final = {"query": 3, "path": 4}
_TYPE_OF_PARAMETER: Final = {"query": 6, "path": 5}


def encode_document(swagger: Object) -> bytes:
    """Return a document of OpenAPI v2 as protobuf."""
    info = swagger["info"]
    return b"".join(
        (
            _text(1, swagger["swagger"]),
            _field(2, _text(1, info["title"]) + _text(2, info["version"])),
            _field(8, b"".join(_named(2, path, _path(item)) for path, item in swagger["paths"].items())),
            _field(9, _schemas(swagger["definitions"])),
        )
    )


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > _LOW_BITS:
        encoded.append(value & _LOW_BITS | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _field(number: int, raw: bytes) -> bytes:
    """Return a length-delimited field (a message)."""
    return _varint(number << 3 | _BYTES) + _varint(len(raw)) + raw


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _count(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _named(number: int, name: str, raw: bytes) -> bytes:
    """Return one named entry of a map; gnostic has lists of name and value instead of maps."""
    return _field(number, _text(1, name) + _field(2, raw))


def _any(number: int, value: Any) -> bytes:  # noqa: ANN401 - JSON
    return _field(number, _field(2, encode(value)))


def _extensions(number: int, extended: Mapping[str, Any]) -> bytes:
    return b"".join(
        _field(number, _text(1, name) + _any(2, value)) for name, value in extended.items() if name.startswith("x-")
    )


def _schemas(schemas: Mapping[str, Object]) -> bytes:
    return b"".join(_named(1, name, _schema(schema)) for name, schema in schemas.items())


def _schema(schema: Object) -> bytes:
    fields = [_text(number, schema[name]) for name, number in _SCHEMA_TEXTS.items() if name in schema]
    fields += [
        _varint(number << 3 | _FIXED64) + struct.pack("<d", schema[name])
        for name, number in _SCHEMA_NUMBERS.items()
        if name in schema
    ]
    fields += [_count(number, int(schema[name])) for name, number in _SCHEMA_COUNTS.items() if name in schema]
    if "default" in schema:
        fields.append(_any(5, schema["default"]))
    fields += [_text(19, name) for name in schema.get("required", ())]
    fields += [_any(20, value) for value in schema.get("enum", ())]
    values = schema.get("additionalProperties")
    if values is not None:
        fields.append(_field(21, _field(1, _schema(values)) if isinstance(values, dict) else _count(2, int(values))))
    if "type" in schema:
        fields.append(_field(22, _text(1, schema["type"])))
    if "items" in schema:
        fields.append(_field(23, _field(1, _schema(schema["items"]))))
    if "properties" in schema:
        fields.append(_field(25, _schemas(schema["properties"])))
    return b"".join((*fields, _extensions(31, schema)))


def _path(item: Object) -> bytes:
    verbs = (_field(number, _operation(item[verb])) for verb, number in _VERBS.items() if verb in item)
    return b"".join((*verbs, _parameters(9, item.get("parameters", ()))))


def _operation(operation: Object) -> bytes:
    answers = (_named(1, code, _field(1, _response(response))) for code, response in operation["responses"].items())
    parts = (_parameters(8, operation.get("parameters", ())), _field(9, b"".join(answers)))
    return b"".join((*parts, _extensions(13, operation)))


def _response(response: Object) -> bytes:
    schema = _field(2, _field(1, _schema(response["schema"]))) if "schema" in response else b""
    return _text(1, response["description"]) + schema


def _parameters(number: int, parameters: Iterable[Object]) -> bytes:
    return b"".join(_field(number, _field(1, _field(2, _parameter(parameter)))) for parameter in parameters)


def _parameter(parameter: Object) -> bytes:
    location = parameter["in"]
    required = _count(1, 1) if parameter.get("required") else b""
    encoded = required + _text(2, location) + _text(4, parameter["name"])
    return _field(_PLACES[location], encoded + _text(_TYPE_OF_PARAMETER[location], parameter["type"]))
