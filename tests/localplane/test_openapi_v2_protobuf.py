"""OpenAPI v2 on the wire; tests/clients shows that kubectl reads it."""

import pytest

from localplane import openapi_v2_protobuf
from tests.violations import for_each_case


def document(**definition):
    found = {"swagger": "2.0", "info": {"title": "t", "version": "v"}, "paths": {}, "definitions": {"A": definition}}
    return openapi_v2_protobuf.encode_document(found)


HEAD = b"\x0a\x032.0" + b"\x12\x06" + b"\x0a\x01t" + b"\x12\x01v" + b"\x42\x00"
"""swagger, info, paths."""


@for_each_case(
    [
        pytest.param({}, b"", id="anything"),
        pytest.param({"type": "string"}, b"\xb2\x01\x08\x0a\x06string", id="type"),
        pytest.param({"$ref": "#/b"}, b"\x0a\x03#/b", id="reference"),
        pytest.param({"minimum": 1}, b"\x49" + b"\x00\x00\x00\x00\x00\x00\xf0\x3f", id="number"),
        pytest.param({"maxLength": 300}, b"\x58\xac\x02", id="count"),
        pytest.param({"required": ["a", "b"]}, b"\x9a\x01\x01a\x9a\x01\x01b", id="texts"),
        pytest.param({"default": {}}, b"\x2a\x04\x12\x02{}", id="value"),
        pytest.param({"items": {"$ref": "b"}}, b"\xba\x01\x05\x0a\x03\x0a\x01b", id="elements"),
        pytest.param({"properties": {"f": {}}}, b"\xca\x01\x07\x0a\x05\x0a\x01f\x12\x00", id="fields"),
        pytest.param({"additionalProperties": True}, b"\xaa\x01\x02\x10\x01", id="map-of-anything"),
        pytest.param({"x-a": 1}, b"\xfa\x01\x0a\x0a\x03x-a\x12\x03\x12\x011", id="extension"),
    ]
)
def test_what_a_definition_looks_like(definition, raw):
    named = b"\x0a\x01A\x12" + bytes([len(raw)]) + raw
    entry = b"\x0a" + bytes([len(named)]) + named
    assert document(**definition) == HEAD + b"\x4a" + bytes([len(entry)]) + entry
