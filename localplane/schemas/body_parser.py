"""Parses request bodies in JSON and YAML, and keeps track of duplicate keys.

Usually msgspec parses the body alone. A body without duplicate keys contains ``":`` as often as the encoding of its
parsed value; if the counts differ, a slower parser that sees each key parses the body again.
"""

import json
import re
from itertools import accumulate
from typing import Any, Final

import msgspec
import yaml

from localplane.objects import encode
from localplane.schemas import json_syntax
from localplane.schemas.go_decoder import DuplicateKeys, duplicate_fields

_KEY_END: Final = b'":'


MAX_DEPTH: Final = 200
"""Maximum nesting of a body (upstream: 10,000), which bounds all recursion over objects."""


class BodySyntaxError(Exception):
    """The error of a body that is no JSON or no YAML."""


def parse_json(raw: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a JSON body; an object with duplicate keys is a `DuplicateKeys`, and so is the root object.

    Raises `BodySyntaxError`.
    """
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        _check_depth(raw)
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _parse_or_explain(raw.decode(errors="replace"))  # Go also accepts invalid UTF-8
    if type(value) is not dict or encode(value).count(_KEY_END) == raw.count(_KEY_END):
        return value
    return _parse_with_duplicates(raw)


def _parse_with_duplicates(text: str | bytes) -> Any:  # noqa: ANN401
    value = json.loads(text, object_pairs_hook=_object_of_pairs)
    if type(value) is dict and any(duplicate_fields(value)):
        return DuplicateKeys(list(value.items()))
    return value


_BRACKETS: Final = b"{}[]"
_DEPTH_STEPS: Final = bytes.maketrans(_BRACKETS, bytes([1, 255, 1, 255]))
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(_BRACKETS))


def _check_depth(raw: bytes) -> None:
    """Raise `BodySyntaxError` for a body that is nested too deeply, before any code recurses over the body.

    In valid JSON, text after an even number of quotes is outside of all strings.
    """
    outside = b"".join(raw.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]).translate(None, _NOT_BRACKETS)
    for position, depth in enumerate(accumulate(memoryview(outside.translate(_DEPTH_STEPS)).cast("b"))):
        if depth > MAX_DEPTH:
            raise BodySyntaxError(f"invalid character '{chr(outside[position])}' exceeded max depth")


def _parse_or_explain(text: str) -> Any:  # noqa: ANN401
    if wrong := json_syntax.syntax_error(text):
        raise BodySyntaxError(wrong)
    try:
        return _parse_with_duplicates(text)
    except ValueError as error:
        raise BodySyntaxError(str(error)) from error


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    return content if len(content) == len(pairs) else DuplicateKeys(pairs)


def parse_yaml(raw: bytes) -> tuple[Any, list[str]]:
    """Return the value of a YAML or JSON body, and warnings about duplicate keys; raises `BodySyntaxError`."""
    if max(raw.count(b"{") + raw.count(b"["), _max_indentation(raw)) > MAX_DEPTH:
        _check_depth(raw)
        if _max_indentation(raw) > MAX_DEPTH:
            raise BodySyntaxError("yaml: exceeded max depth")
    if raw.lstrip()[:1] == b"{":
        try:
            return msgspec.json.decode(raw), _duplicate_key_warnings(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # possibly a YAML flow mapping
    if b"&" in raw and b"*" in raw:
        raise BodySyntaxError("yaml: anchors and aliases are not supported")  # a few bytes could expand to gigabytes
    try:
        loader = _YamlLoader(raw)  # the constructor reads the first bytes and may raise
        return loader.get_single_data(), loader.warnings
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise BodySyntaxError(f"yaml: {line}{getattr(error, 'problem', None) or error}") from error


def _max_indentation(raw: bytes) -> int:
    return max((len(line) - len(line.lstrip(b" -")) for line in raw.splitlines()), default=0)


def _duplicate_key_warnings(raw: bytes) -> list[str]:
    if encode(msgspec.json.decode(raw)).count(_KEY_END) == raw.count(_KEY_END):
        return []
    try:
        loader = _YamlLoader(raw)
        loader.get_single_data()
    except yaml.YAMLError:  # not every JSON text is valid YAML
        return []
    return loader.warnings


class _YamlLoader(yaml.SafeLoader):
    """Loads YAML as upstream does: y and n are booleans, timestamps are strings, duplicate keys give warnings."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.warnings: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Build a mapping with string keys."""
        self.flatten_mapping(node)
        content: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            key = str(key).lower() if isinstance(key, bool) else str(key)
            if key in content:
                self.warnings.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            content[key] = self.construct_object(value_node, deep=deep)
        return content


_YamlLoader.bool_values = yaml.SafeLoader.bool_values | {"y": True, "n": False}
_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_YamlLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))
