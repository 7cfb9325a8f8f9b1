"""OpenAPI v2 says what v3 says, as far as it can."""

import pytest

from localplane import openapi_v2
from tests.violations import for_each_case

REFERENCE = "#/components/schemas/"


def converted(schema):
    parts = {"info": {}, "paths": {}, "components": {"schemas": {"A": schema}}}
    return openapi_v2.from_openapi_v3([parts])["definitions"]["A"]


@for_each_case(
    [
        pytest.param({"$ref": f"{REFERENCE}B"}, {"$ref": "#/definitions/B"}, id="reference"),
        pytest.param(
            {"allOf": [{"$ref": f"{REFERENCE}B"}], "default": {}, "description": "b"},
            {"$ref": "#/definitions/B", "description": "b"},
            id="reference-with-text",
        ),
        pytest.param({"oneOf": [{"type": "string"}, {"type": "number"}]}, {"type": "string"}, id="quantity"),
        pytest.param(
            {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
            {"type": "string", "format": "int-or-string"},
            id="int-or-string",
        ),
        pytest.param({"type": "integer", "nullable": True, "minimum": 1}, {"minimum": 1}, id="null-has-no-type"),
        pytest.param(
            {"type": "array", "items": {"type": "string", "not": {"enum": ["x"]}}, "x-kubernetes-list-type": "set"},
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            id="elements",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer"}, "required": ["a"]},
            {"type": "object", "additionalProperties": {"type": "integer"}, "required": ["a"]},
            id="map",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True},
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            id="what-is-open-has-no-known-fields",
        ),
    ]
)
def test_what_becomes_of_a_schema(schema, shown):
    assert converted(schema) == shown


def test_parameters_have_their_type_beside_their_name():
    query = {"name": "dryRun", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    patch = {"parameters": [query], "responses": {}, "x-kubernetes-action": "patch", "requestBody": {}}
    found = openapi_v2.from_openapi_v3([{"info": {}, "paths": {"/a": {"patch": patch}}, "components": {"schemas": {}}}])

    given = {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": True}
    assert found["paths"]["/a"]["patch"] == {"parameters": [given], "responses": {}, "x-kubernetes-action": "patch"}
