"""Converts JSON values to CEL values with the types of their schema.

A ``date-time`` is a timestamp; a ``number`` is a double even if written without a decimal point. Field names that are
no CEL identifiers are escaped (``__dash__``). A rule cannot see fields that the schema does not declare.
"""

import binascii
import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cel_expr_python import cel
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from localplane.crds.pruning import EMBEDDED_RESOURCE, PRESERVE_UNKNOWN_FIELDS, JsonSchemaProps

BOOL, STRING, DYN = cel.Type.BOOL, cel.Type.STRING, cel.Type.DYN

INT_OR_STRING: Final = "x-kubernetes-int-or-string"

_SCALARS: Final = {"boolean": BOOL, "integer": cel.Type.INT, "number": cel.Type.DOUBLE}
_FORMATS: Final = {
    "byte": cel.Type.BYTES,
    "date": cel.Type.TIMESTAMP,
    "date-time": cel.Type.TIMESTAMP,
    "duration": cel.Type.DURATION,
}


def cel_type(schema: JsonSchemaProps) -> Any:  # noqa: ANN401 - cel.Type
    """Return the CEL type of a schema's values; an object with fields is DYN."""
    if schema.get(INT_OR_STRING) or schema.get("nullable"):
        return DYN
    kind = schema.get("type")
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind == "string":
        return _FORMATS.get(schema.get("format") or "", STRING)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return cel.Type.List(cel_type(schema["items"]))
    others = schema.get("additionalProperties")
    if kind == "object" and isinstance(others, dict):
        return cel.Type.Map(STRING, cel_type(others))
    return DYN


def cel_list_type(kind: Any) -> Any:  # noqa: ANN401 - cel.Type
    """Return the CEL type of lists of a type."""
    return cel.Type.List(kind)


def to_cel_value(json: Any, schema: JsonSchemaProps | None, *, root: bool = False) -> Any:  # noqa: ANN401, PLR0911 - one for each type
    """Return a JSON value as a CEL value of its schema's type."""
    if schema is None or json is None:
        return json
    match json:
        case dict():
            return _object_to_cel(json, schema, root=root)
        case list():
            return [to_cel_value(item, schema.get("items")) for item in json]
        case bool():
            return json
        case int() | float() if not schema.get(INT_OR_STRING):
            return float(json) if schema.get("type") == "number" else int(json)
        case str() if schema.get("type") == "string":
            return _string_to_cel(json, schema.get("format") or "")
        case _:
            return json


def _object_to_cel(json: JsonSchemaProps, schema: JsonSchemaProps, *, root: bool) -> JsonSchemaProps:
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    seen: JsonSchemaProps = {}
    for name, item in json.items():
        if name in properties:
            seen[escape_field_name(name)] = to_cel_value(item, properties[name])
        elif isinstance(others, dict):
            seen[name] = to_cel_value(item, others)
        elif others is True or (schema.get(PRESERVE_UNKNOWN_FIELDS) and not properties):
            seen[name] = item
    if root or schema.get(EMBEDDED_RESOURCE):
        seen |= {name: json[name] for name in ("apiVersion", "kind") if name in json}
        meta = json.get("metadata")
        if isinstance(meta, dict):
            seen["metadata"] = {name: meta[name] for name in ("name", "generateName") if name in meta}
    return seen


def _string_to_cel(text: str, form: str) -> object:
    try:
        match form:
            case "date-time" | "date":
                moment = datetime.fromisoformat(text)
                stamp = Timestamp()
                stamp.FromDatetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
                return stamp
            case "duration":
                return _parse_duration(text)
            case "byte":
                return b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return text
    return text


_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def _parse_duration(text: str) -> Duration:
    body = text.lstrip("+-")
    if not re.fullmatch(f"({_DURATION_PART.pattern})+", body):
        raise ValueError(text)
    nanoseconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(body))
    span = Duration()
    span.FromTimedelta(timedelta(microseconds=(-1 if text.startswith("-") else 1) * nanoseconds / 1000))
    return span


_RESERVED: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escape_field_name(name: str) -> str:
    """Return the CEL name of a field: reserved words and special characters are escaped."""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[./-]", lambda sign: _ESCAPES[sign[0]], name)
