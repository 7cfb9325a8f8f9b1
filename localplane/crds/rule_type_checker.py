"""Checks the types of CEL rules: describes the schema of a custom kind as protobuf messages for CEL's type checker.

The messages serve only to check rules when a definition is written. Rules run on plain JSON
(`cel_values.to_cel_value`), where a missing field stays missing and conversion is cheap. Types that protobuf cannot
express (lists of lists, maps of lists) are not checked.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from cel_expr_python import cel
from google.protobuf import descriptor_pb2

from dra.cel import library
from dra.cel.expressions import Expression, MalformedExpressionError, environment
from localplane.crds import cel_values
from localplane.crds.pruning import EMBEDDED_RESOURCE, PRESERVE_UNKNOWN_FIELDS, JsonSchemaProps

_Field: Final = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "schema"
_SCALARS: Final = {"boolean": _Field.TYPE_BOOL, "integer": _Field.TYPE_INT64, "number": _Field.TYPE_DOUBLE}
_FORMATS: Final = {
    "date": "google.protobuf.Timestamp",
    "date-time": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}
_ANY_VALUE: Final = "google.protobuf.Value"
_ANY_LIST: Final = "google.protobuf.ListValue"
_ANY_MAP: Final = "google.protobuf.Struct"
_FIELD_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class RuleTypeChecker:
    """Checks the types of the CEL rules of one schema."""

    def __init__(self, schema: JsonSchemaProps) -> None:
        self._file = descriptor_pb2.FileDescriptorProto(name="schema.proto", package=_PACKAGE, syntax="proto2")
        self._file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("duration", "struct", "timestamp"))
        self._types: dict[int, str] = {}
        self._root = self._message(schema, root=True)
        self._schema = schema
        self._pool = library.descriptors()
        self._pool.AddSerializedFile(self._file.SerializeToString())

    def wrong(self, rule: str, schema: JsonSchemaProps, *, optional: bool) -> str:
        """Return the type checker's error for a rule at one place of the schema, empty if there is none."""
        kind = self._type(schema)
        before = cel.Type.List(kind) if optional else kind
        names = {"self": kind, ("before" if optional else "oldSelf"): before}
        if optional:
            rule = f"cel.bind(oldSelf, optional.of(before[0]), {rule})"
        try:
            Expression(rule, environment(names, pool=self._pool))
        except MalformedExpressionError as error:
            return str(error)
        return ""

    def _type(self, schema: JsonSchemaProps) -> Any:  # noqa: ANN401 - cel.Type
        """Return the CEL type of a schema's values."""
        if schema is self._schema:
            return cel.Type(self._root)
        if (name := self._types.get(id(schema))) is not None:
            return cel.Type(name)
        if schema.get("type") == "array" and isinstance(items := schema.get("items"), dict):
            return cel.Type.List(self._type(items))
        if schema.get("type") == "object" and isinstance(others := schema.get("additionalProperties"), dict):
            return cel.Type.Map(cel.Type.STRING, self._type(others))
        return cel_values.cel_type(schema)

    def _message(self, schema: JsonSchemaProps, *, root: bool = False) -> str:
        """Add a message type for an object with fields; return the name of the type."""
        message = self._file.message_type.add(name=f"Object{len(self._file.message_type)}")
        name = f"{_PACKAGE}.{message.name}"
        self._types[id(schema)] = name
        for number, (field, what) in enumerate(self._fields(schema, root=root), start=1):
            made = message.field.add(name=field, number=number, json_name=f"f{number}", label=_Field.LABEL_OPTIONAL)
            self._fill(made, what, message)
        return name

    def _fields(self, schema: JsonSchemaProps, *, root: bool) -> Iterator[tuple[str, JsonSchemaProps]]:
        found = {cel_values.escape_field_name(name): each for name, each in (schema.get("properties") or {}).items()}
        if root or schema.get(EMBEDDED_RESOURCE):
            text = {"type": "string"}
            meta = {"type": "object", "properties": {"name": text, "generateName": text}}
            found |= {"apiVersion": text, "kind": text, "metadata": meta}
        yield from ((name, each) for name, each in found.items() if _FIELD_NAME.fullmatch(name))

    def _fill(self, made: Any, schema: JsonSchemaProps, message: Any) -> None:  # noqa: ANN401 - protobuf
        kind, items, others = schema.get("type"), schema.get("items"), schema.get("additionalProperties")
        if schema.get(cel_values.INT_OR_STRING) or kind is None:
            made.type, made.type_name = _Field.TYPE_MESSAGE, _ANY_VALUE
        elif kind in _SCALARS:
            made.type = _SCALARS[kind]
        elif kind == "string":
            self._text(made, schema.get("format") or "")
        elif kind == "array" and isinstance(items, dict) and items.get("type") != "array" and not _is_map(items):
            self._fill(made, items, message)
            made.label = _Field.LABEL_REPEATED
        elif kind == "array":
            made.type, made.type_name = _Field.TYPE_MESSAGE, _ANY_LIST
        elif isinstance(others, dict) and self._can_be_map(others, made.name, message):
            entry = message.nested_type.add(name=_map_entry_name(made.name))
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
            self._fill(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL), others, entry)
            made.type, made.type_name = _Field.TYPE_MESSAGE, f"{_PACKAGE}.{message.name}.{entry.name}"
            made.label = _Field.LABEL_REPEATED
        elif others or (schema.get(PRESERVE_UNKNOWN_FIELDS) and not schema.get("properties")):
            made.type, made.type_name = _Field.TYPE_MESSAGE, _ANY_MAP if others else _ANY_VALUE
        else:
            made.type, made.type_name = _Field.TYPE_MESSAGE, self._message(schema)

    @staticmethod
    def _can_be_map(others: JsonSchemaProps, name: str, message: Any) -> bool:  # noqa: ANN401 - protobuf
        if others.get("type") == "array" or _is_map(others):
            return False
        return all(each.name != _map_entry_name(name) for each in message.nested_type)

    @staticmethod
    def _text(made: Any, form: str) -> None:  # noqa: ANN401 - protobuf
        if form in _FORMATS:
            made.type, made.type_name = _Field.TYPE_MESSAGE, _FORMATS[form]
        else:
            made.type = _Field.TYPE_BYTES if form == "byte" else _Field.TYPE_STRING


def _is_map(schema: JsonSchemaProps) -> bool:
    others = schema.get("additionalProperties")
    return schema.get("type") == "object" and others is not None and others is not False


def _map_entry_name(field: str) -> str:
    """Return the name that protobuf requires for the entry type of a map field."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"
