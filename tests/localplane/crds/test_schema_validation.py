"""Values against their schemas: what is refused, and in which words."""

import pytest

from localplane.crds import schema_validation
from tests.violations import for_each_case

SPEC = {"type": "object", "properties": {}}


def texts(schema, value, **more):
    root = {"type": "object", "properties": {"v": schema}}
    return [f"{cause.field}: {cause.message}" for cause in schema_validation.validate_value({"v": value}, root, **more)]


@for_each_case(
    [
        pytest.param({"type": "integer"}, 5, [], id="integer"),
        pytest.param({"type": "integer"}, 5.0, [], id="whole-float-is-an-integer"),
        pytest.param({"type": "number"}, 5, [], id="integer-is-a-number"),
        pytest.param(
            {"type": "integer"},
            "x",
            ['v: Invalid value: "string": v in body must be of type integer: "string"'],
            id="wrong-type",
        ),
        pytest.param(
            {"type": "boolean"},
            1,
            ['v: Invalid value: "integer": v in body must be of type boolean: "integer"'],
            id="number-is-no-boolean",
        ),
        pytest.param({"x-kubernetes-int-or-string": True}, "50%", [], id="int-or-string"),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            [],
            ['v: Invalid value: "array": v in body must be of type integer,string: "array"'],
            id="neither-int-nor-string",
        ),
        pytest.param({"type": "string", "nullable": True}, None, [], id="nullable"),
        pytest.param(
            {"type": "string"},
            None,
            ['v: Invalid value: "null": v in body must be of type string: "null"'],
            id="null",
        ),
        pytest.param(
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            1,
            ["v: Invalid value: 1: v in body should be greater than 1"],
            id="exclusive-minimum",
        ),
        pytest.param(
            {"type": "number", "maximum": 1.5},
            2.5,
            ["v: Invalid value: 2.5: v in body should be less than or equal to 1.5"],
            id="maximum",
        ),
        pytest.param(
            {"type": "number", "maximum": 1.5},
            2,
            ["v: Invalid value: 2: v in body should be less than or equal to 1"],
            id="maximum-of-an-integer-is-an-integer",
        ),
        pytest.param(
            {"type": "integer"},
            5.5,
            [
                'v: Invalid value: "number": v in body must be of type integer: "number"',
                ': Invalid value: "": Checked value must be of type integer (default format) in v',
            ],
            id="no-whole-number",
        ),
        pytest.param(
            {"type": "integer", "multipleOf": 5},
            7,
            ["v: Invalid value: 7: v in body should be a multiple of 5"],
            id="multiple-of",
        ),
        pytest.param(
            {"type": "string", "maxLength": 2}, "abc", ["v: Too long: may not be more than 2 bytes"], id="long"
        ),
        pytest.param(
            {"type": "string", "minLength": 2},
            "a",
            ['v: Invalid value: "a": v in body should be at least 2 chars long'],
            id="short",
        ),
        pytest.param(
            {"type": "string", "pattern": "^[a-z]+$"},
            "A",
            ["v: Invalid value: \"A\": v in body should match '^[a-z]+$'"],
            id="pattern",
        ),
        pytest.param(
            {"type": "string", "enum": ["a", "b"]},
            "c",
            ['v: Unsupported value: "c": supported values: "a", "b"'],
            id="enum",
        ),
        pytest.param({"type": "string", "format": "date-time"}, "2026-11-20T16:04:43Z", [], id="date-time"),
        pytest.param(
            {"type": "string", "format": "date-time"},
            "yesterday",
            ['v: Invalid value: "yesterday": v in body must be of type date-time: "yesterday"'],
            id="no-date-time",
        ),
        pytest.param({"type": "string", "format": "made-up"}, "anything", [], id="unknown-formats-mean-nothing"),
        pytest.param(
            {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
            [1, "x"],
            [
                'v[1]: Invalid value: "string": v[1] in body must be of type integer: "string"',
                "v: Too many: 2: must have at most 1 item",
            ],
            id="list",
        ),
        pytest.param(
            {"type": "object", "required": ["a"], "additionalProperties": {"type": "string"}},
            {"b": 1},
            [
                'v.b: Invalid value: "integer": v.b in body must be of type string: "integer"',
                "v.a: Required value",
            ],
            id="map",
        ),
        pytest.param(
            {"type": "object", "minProperties": 1},
            {},
            ["v: Invalid value: 0: v in body should have at least 1 properties"],
            id="few-properties",
        ),
        pytest.param(
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 1},
            [': Invalid value: "": "v" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
            id="one-of",
        ),
        pytest.param(
            {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                ': Invalid value: "": "v" must validate at least one schema (anyOf)',
                "v.a: Required value",
            ],
            id="any-of-tells-the-best-failure",
        ),
        pytest.param(
            {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]},
            5,
            [
                "v: Invalid value: 5: v in body should be less than or equal to 3",
                ': Invalid value: "": "v" must validate all the schemas (allOf)',
            ],
            id="all-of",
        ),
        pytest.param(
            {"type": "string", "not": {"enum": ["x"]}},
            "x",
            [': Invalid value: "": "v" must not validate the schema (not)'],
            id="not",
        ),
    ],
)
def test_a_value_is_refused_in_the_words_of_the_real_server(schema, value, wrong):
    assert texts(schema, value) == wrong


def test_what_was_wrong_before_may_stay():
    schema = {"type": "object", "properties": {"v": {"type": "integer", "minimum": 5}, "w": {"type": "integer"}}}

    assert schema_validation.validate_value({"v": 1, "w": 2}, schema, old={"v": 1, "w": 1}) == []
    assert len(schema_validation.validate_value({"v": 2, "w": 2}, schema, old={"v": 1, "w": 1})) == 1


def test_entries_of_a_list_that_is_a_map_are_known_again_wherever_they_stand():
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 5}}},
    }
    old = [{"name": "a", "n": 1}, {"name": "b", "n": 9}]

    assert schema_validation.validate_value([old[1], old[0]], schema, old=old) == []
    assert len(schema_validation.validate_value([{"name": "a", "n": 2}], schema, old=old)) == 1


def test_a_pattern_that_would_take_python_forever_takes_no_time():
    schema = {"type": "string", "pattern": "^(a+)+$"}

    assert len(schema_validation.validate_value("a" * 5000 + "!", schema)) == 1


@pytest.mark.parametrize(
    ("schema", "value", "older", "newer"),
    [
        pytest.param(
            {"type": "string", "minLength": 1},
            "",
            ("FieldValueInvalid", 'Invalid value: "": v in body should be at least 1 chars long'),
            ("FieldValueTooShort", "Too short: must be at least 1 character"),
            id="text",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            [1],
            ("FieldValueInvalid", "Invalid value: 1: v in body should have at least 2 items"),
            ("FieldValueTooFew", "Too few: 1: must have at least 2 items"),
            id="list",
        ),
        pytest.param(
            {"type": "object", "minProperties": 1},
            {},
            ("FieldValueInvalid", "Invalid value: 0: v in body should have at least 1 properties"),
            ("FieldValueTooFew", "Too few: 0: must have at least 1 item"),
            id="map",
        ),
    ],
)
def test_what_is_too_short_has_a_type_of_its_own_since_1_38(schema, value, older, newer):
    root = {"type": "object", "properties": {"v": schema}}
    for typed, told in ((False, older), (True, newer)):
        (cause,) = schema_validation.validate_value({"v": value}, root, typed_shortages=typed)
        assert (cause.type, cause.message) == told
