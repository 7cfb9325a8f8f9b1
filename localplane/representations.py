"""Represents objects in responses: whole, as partial metadata, or as rows of a table for ``kubectl get``.

The Accept header selects the representation: ``application/json;as=Table;g=meta.k8s.io;v=v1``. A representation works
on stored bytes; a whole object in its stored version is returned without being decoded.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from dra.kube.transport import JSON
from dra.model import jsonpath
from localplane import status_errors
from localplane.kinds import columns
from localplane.kinds.kind import Kind, PrinterColumn
from localplane.objects import Object, decode, encode

_GROUP: Final = "meta.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")


class Representation(Protocol):
    """The interface of a representation of objects."""

    key: str
    """Cache key, equal for representations with equal output; empty if each watch needs its own representation."""

    def encode_object(self, raw: bytes) -> bytes:
        """Return the representation of one object."""
        ...

    def encode_list(self, raws: Sequence[bytes], meta: Object) -> bytes:
        """Return the representation of a list with its metadata."""
        ...

    def encode_bookmark(self, obj: Object) -> bytes:
        """Return the representation of a bookmark, an object without contents."""
        ...


class FullObjects:
    """Represents objects with all their fields."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.key = f"whole {kind.api_version}"

    def encode_object(self, raw: bytes) -> bytes:
        """Return the object in the version of its kind."""
        return self._kind.from_storage(raw)

    def encode_list(self, raws: Sequence[bytes], meta: Object) -> bytes:
        """Return a list of the kind's list type."""
        shown = raws if self._kind.converter is None else [self.encode_object(raw) for raw in raws]
        head = {"kind": self._kind.list_kind, "apiVersion": self._kind.api_version, "metadata": meta}
        return _encode_list(head, shown)

    def encode_bookmark(self, obj: Object) -> bytes:
        """Return the bookmark as it is."""
        return encode(obj)


class PartialMetadata:
    """Represents objects as PartialObjectMetadata, which garbage collectors and many controllers watch."""

    def __init__(self, version: str) -> None:
        self.key = f"metadata {version}"
        self._type_meta = {"apiVersion": f"{_GROUP}/{version}"}
        self._head = encode({"kind": "PartialObjectMetadata"} | self._type_meta)[:-1] + b',"metadata":'

    def encode_object(self, raw: bytes) -> bytes:
        """Return the metadata of an object, copied without decoding."""
        return b"".join((self._head, bytes(_metadata_decoder.decode(raw).metadata), b"}"))

    def encode_list(self, raws: Sequence[bytes], meta: Object) -> bytes:
        """Return a PartialObjectMetadataList, the same for every kind."""
        head = {"kind": "PartialObjectMetadataList"} | self._type_meta | {"metadata": meta}
        return _encode_list(head, [self.encode_object(raw) for raw in raws])

    def encode_bookmark(self, obj: Object) -> bytes:
        """Return the partial metadata of a bookmark."""
        return self.encode_object(encode(obj))


class _RawMetadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_decoder: Final = msgspec.json.Decoder(_RawMetadata)


def _encode_list(head: Object, raws: Sequence[bytes]) -> bytes:
    return b"".join((encode(head)[:-1], b',"items":[', b",".join(raws), b"]}"))


_DEFAULT_COLUMNS: Final = (columns.NAME, PrinterColumn(name="Age", type="date", path=".metadata.creationTimestamp"))
_INCLUDE_OBJECT_POLICIES: Final = ("", "Metadata", "Object", "None")


class TableConvertor:
    """Represents objects as a Table of columns and rows; only the first event of a watch names the columns."""

    key = ""

    def __init__(self, kind: Kind, version: str, *, include: str, now: Callable[[], datetime]) -> None:
        self._kind = kind
        self._version = f"{_GROUP}/{version}"
        self._metadata = PartialMetadata(version)
        self._include = include
        self._now = now
        self._columns: tuple[PrinterColumn, ...] = kind.columns or _DEFAULT_COLUMNS
        self._columns_sent = False

    def encode_object(self, raw: bytes) -> bytes:
        """Return a table of one row; the first table of a watch names the columns."""
        revision = _resource_version_decoder.decode(raw).metadata.revision
        table = self._table([raw], {"resourceVersion": revision}, with_columns=not self._columns_sent)
        self._columns_sent = True
        return table

    def encode_list(self, raws: Sequence[bytes], meta: Object) -> bytes:
        """Return a table with a row for each object."""
        return self._table(raws, {name: value for name, value in meta.items() if value}, with_columns=True)

    def encode_bookmark(self, obj: Object) -> bytes:
        """Return a table without rows."""
        return self._table([], {"resourceVersion": obj["metadata"]["resourceVersion"]}, with_columns=False)

    def _table(self, raws: Iterable[bytes], meta: Object, *, with_columns: bool) -> bytes:
        head: Object = {"kind": "Table", "apiVersion": self._version, "metadata": meta}
        head["columnDefinitions"] = [_column_definition(column) for column in self._columns] if with_columns else None
        now = self._now()
        head["rows"] = [self._row(raw, now) for raw in raws]
        return encode(head)

    def _row(self, raw: bytes, now: datetime) -> Object:
        obj = decode(raw)
        computed = self._kind.strategy.table_cells(obj, now=now)
        cells = [
            printer_cell(column, obj, now) if column.path else computed.get(column.name, _name_cell(column, obj))
            for column in self._columns
        ]
        match self._include:
            case "None":
                return {"cells": cells}
            case "Object":
                return {"cells": cells, "object": msgspec.Raw(self._kind.from_storage(raw))}
            case _:
                return {"cells": cells, "object": msgspec.Raw(self._metadata.encode_object(raw))}


def _name_cell(column: PrinterColumn, obj: Object) -> str | None:
    return obj["metadata"]["name"] if column.format == "name" else None


class _ResourceVersion(msgspec.Struct):
    revision: str = msgspec.field(name="resourceVersion", default="")


class _VersionedObject(msgspec.Struct):
    metadata: _ResourceVersion


_resource_version_decoder: Final = msgspec.json.Decoder(_VersionedObject)


def _column_definition(column: PrinterColumn) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def printer_cell(column: PrinterColumn, obj: Object, now: datetime) -> Any:  # noqa: ANN401, PLR0911 - JSON; one for each type
    """Return the cell of a column with a path: the first value, converted to the column's type; None if impossible."""
    values = jsonpath.find_values(column.path, obj)
    if not values or values[0] is None:
        return None
    value = values[0]
    match column.type:
        case "string":
            return value if isinstance(value, str) else encode(value).decode()
        case "integer":
            return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return _age_cell(value, now)
        case _:
            return None


def _age_cell(value: Any, now: datetime) -> str | None:  # noqa: ANN401 - JSON
    try:
        return columns.elapsed(value, now) if isinstance(value, str) else None
    except ValueError:
        return "<invalid>"


def negotiate_representation(
    kind: Kind, accept: str, *, include: str, is_list: bool, now: Callable[[], datetime]
) -> Representation:
    """Return the first representation that a client accepts; raises `StatusError` 406.

    `many` is true for lists, whose partial metadata has another name than that of a single object.
    """
    if accept == JSON:  # most requests
        return FullObjects(kind)
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media not in (JSON, "*/*", "application/*", ""):
            continue
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        representation, version = options.get("as"), options.get("v", "v1")
        if representation is None:
            return FullObjects(kind)
        if options.get("g", _GROUP) != _GROUP or version not in _VERSIONS:
            continue
        if representation == "Table":
            if include not in _INCLUDE_OBJECT_POLICIES:
                raise status_errors.bad_request(f'unrecognized includeObject value: "{include}"')
            return TableConvertor(kind, version, include=include, now=now)
        if representation == ("PartialObjectMetadataList" if is_list else "PartialObjectMetadata"):
            return PartialMetadata(version)
    raise status_errors.not_acceptable((JSON,))
