"""What comes in the body of a request: JSON or YAML, an object or options."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
import yaml

from dra.kube.transport import JSON, Request
from dra.local import refusals
from dra.local.kinds.kind import Kind
from dra.local.objects import Object

YAML: Final = "application/yaml"

DEPTH: Final = 200
"""Levels of nesting that a body may have; no kind needs a quarter of it, and whoever walks objects may recurse."""


def media_type(request: Request) -> str:
    """Return the content type without parameters; JSON when there is none."""
    return (request.content_type or JSON).partition(";")[0].strip().lower()


def whole(request: Request, *, expected: str) -> Object:
    """Return the object in a body; raises `Refusal` 400 and 415."""
    read = _READERS.get(media_type(request))
    if read is None:
        raise refusals.unsupported_media_type(tuple(_READERS))
    try:
        value = parsed(request.body or b"", read)
    except ValueError as error:
        why = f"couldn't get version/kind; json parse error: {error}"
        raise refusals.bad_request(f"the object provided is unrecognized (must be of type {expected}): {why}") from None
    if not isinstance(value, dict):
        why = f"json: cannot unmarshal {_go_type(value)} into Go value of type struct"
        why = f"couldn't get version/kind; json parse error: {why}"
        raise refusals.bad_request(f"the object provided is unrecognized (must be of type {expected}): {why}")
    return value


def of_kind(request: Request, kind: Kind, *, name: str = "", api_version: str = "") -> Object:
    """Return the object in a body, which must be of a kind; the names may differ for a subresource."""
    name, api_version = name or kind.name, api_version or kind.api_version
    obj = whole(request, expected=name)
    given_version, given = obj.setdefault("apiVersion", api_version), obj.setdefault("kind", name)
    if given_version != api_version:
        raise refusals.bad_request(
            f"the API version in the data ({given_version}) does not match the expected API version ({api_version})"
        )
    if given != name:
        version = api_version.rpartition("/")[2]
        raise refusals.bad_request(f'{given} in version "{version}" cannot be handled as a {name}: unknown conversion')
    return obj


def parsed(raw: bytes, read: Callable[[bytes], Any]) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a body; raises ValueError for what is malformed or nested too deeply."""
    try:
        value = read(raw)
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if raw.count(b"{") + raw.count(b"[") > DEPTH and _deeper(value, DEPTH):
        raise ValueError("exceeded max depth")
    return value


def _deeper(value: object, limit: int) -> bool:
    """Whether a value is nested more than so many levels; without recursion, which is what this protects from."""
    level = [value]
    for _ in range(limit):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return False
    return True


def _inner(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def read_yaml(raw: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return what YAML means as JSON: no dates, no keys but texts."""
    with suppress(msgspec.DecodeError):  # most such bodies are JSON, which is read much faster as such
        return msgspec.json.decode(raw)
    if raw.count(b"*") and raw.count(b"&"):
        raise ValueError("YAML with anchors and aliases is not taken")  # a few bytes could become gigabytes
    if max(raw.count(b"{") + raw.count(b"["), _indentation(raw)) > DEPTH:
        raise ValueError("exceeded max depth")
    return msgspec.to_builtins(yaml.load(raw, Loader=_Loader), str_keys=True)  # noqa: S506 - a safe loader


def _indentation(raw: bytes) -> int:
    return max((len(line) - len(line.lstrip(b" -")) for line in raw.splitlines()), default=0)


class _Loader(yaml.SafeLoader):
    """YAML as Go's JSON-minded reader takes it: timestamps are texts."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_READERS: Final[dict[str, Callable[[bytes], Any]]] = {JSON: msgspec.json.decode, YAML: read_yaml}

_GO_TYPES: Final = {list: "array", str: "string", bool: "bool", int: "number", float: "number", type(None): "null"}


def _go_type(value: object) -> str:
    return _GO_TYPES.get(type(value), "object")
