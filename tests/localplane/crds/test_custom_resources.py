"""Objects of custom kinds: pruning, defaults, rules, lists, status."""

import pytest

from localplane.kinds.kind import Kind
from tests.localplane.crds.example import DEFINITIONS, GROUP, OBJECTS, VERSION, definition, with_schema

NAME = f"reservations.{GROUP}"


def causes(answer):
    return [f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]]


RULES = "x-kubernetes-validations"
BY_KEY = {
    "type": "array",
    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}
WHOLE = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


def having(properties, *rules):
    return {"type": "object", "properties": properties, RULES: [{"rule": each} for each in rules]}


def ruled(rule, **more):
    """Return a schema of a spec with one integer and one rule."""
    rules = [{"rule": rule, **more}]
    fields = {"n": {"type": "integer"}, "m": {"type": "integer"}}
    return {"type": "object", "properties": fields, "x-kubernetes-validations": rules}


async def test_what_the_schema_does_not_know_is_dropped(api):
    await api.define(definition())

    _, made = await api.create(spec={"gpus": 1, "typo": 1}, other=True)

    assert (made["spec"], "other" in made) == ({"gpus": 1}, False)


async def test_what_may_be_unknown_is_kept(api):
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "object"}}}
    await api.define(with_schema(free))

    _, made = await api.create(spec={"x": {"y": 1}, "a": {"z": 1}})

    assert made["spec"] == {"x": {"y": 1}, "a": {}}


async def test_defaults_are_filled_in_also_inside_of_defaults_and_for_null(api):
    inner = {"type": "object", "properties": {"b": {"type": "integer", "default": 5}}, "default": {}}
    fields = {"a": inner, "c": {"type": "string", "default": "x"}, "d": {"type": "string", "nullable": True}}
    await api.define(with_schema({"type": "object", "properties": fields}))

    _, made = await api.create(spec={"c": None, "d": None})

    assert made["spec"] == {"a": {"b": 5}, "c": "x", "d": None}


async def test_a_default_that_comes_later_is_read_with_old_objects(api):
    await api.define(with_schema({"type": "object", "properties": {"a": {"type": "integer"}}}))
    await api.create(spec={})
    later = with_schema({"type": "object", "properties": {"a": {"type": "integer", "default": 7}}})

    await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", {"spec": {"versions": later["spec"]["versions"]}})

    _, found = await api.ask("GET", f"{OBJECTS}/a")
    assert found["spec"] == {"a": 7}
    _, listed = await api.ask("GET", OBJECTS)
    assert listed["items"][0]["spec"] == {"a": 7}


@pytest.mark.parametrize(
    ("schema", "spec", "wrong"),
    [
        pytest.param(ruled("self.n > 1"), {"n": 1}, ["spec: Invalid value: failed rule: self.n > 1"], id="rule"),
        pytest.param(
            ruled("self.n > 1", message="more"), {"n": 1}, ["spec: Invalid value: more"], id="rule-with-a-message"
        ),
        pytest.param(
            ruled("self.n > 1", message="more", messageExpression="'not ' + string(self.n)"),
            {"n": 1},
            ["spec: Invalid value: not 1"],
            id="message-expression-comes-first",
        ),
        pytest.param(
            ruled("self.n > 1", message="more", messageExpression="string(self.m)"),
            {"n": 1},
            ["spec: Invalid value: more"],
            id="message-expression-that-fails",
        ),
        pytest.param(
            ruled("self.n > 1", reason="FieldValueForbidden", message="no", fieldPath=".n"),
            {"n": 1},
            ["spec.n: Forbidden: no"],
            id="reason-and-path",
        ),
        pytest.param(
            ruled("self.n > 1"),
            {},
            ['spec: Invalid value: "object": no such key: n evaluating rule: self.n > 1'],
            id="field-that-is-missing",
        ),
        pytest.param(
            having({"n": {"type": "integer", RULES: [{"rule": "self>1"}]}}),
            {"n": 1},
            ["spec.n: Invalid value: 1: failed rule: self>1"],
            id="scalars-are-shown",
        ),
        pytest.param(
            having({"t": {"type": "string", "format": "date-time"}}, "self.t < timestamp('2020-01-01T00:00:00Z')"),
            {"t": "2026-01-01T00:00:00Z"},
            ["spec: Invalid value: failed rule: self.t < timestamp('2020-01-01T00:00:00Z')"],
            id="date-time-is-a-timestamp",
        ),
        pytest.param(
            having({"q": {"type": "string"}}, "quantity(self.q).isLessThan(quantity('1Gi'))"),
            {"q": "2Gi"},
            ["spec: Invalid value: failed rule: quantity(self.q).isLessThan(quantity('1Gi'))"],
            id="quantities",
        ),
        pytest.param(
            having({"my-name": {"type": "string"}}, "self.my__dash__name != 'x'"),
            {"my-name": "x"},
            ["spec: Invalid value: failed rule: self.my__dash__name != 'x'"],
            id="names-that-cel-cannot-say",
        ),
        pytest.param(
            having({"s": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}),
            {"s": ["a", "b", "a", "a"]},
            ['spec.s[2]: Duplicate value: "a"'],
            id="set",
        ),
        pytest.param(
            having({"s": BY_KEY}),
            {"s": [{"k": "a"}, {"k": "a"}]},
            ['spec.s[1]: Duplicate value: {"k":"a"}'],
            id="map",
        ),
        pytest.param(
            having({"t": WHOLE}),
            {"t": {"kind": "Pod"}},
            ["spec.t.apiVersion: Required value"],
            id="embedded-resource",
        ),
    ],
)
async def test_an_object_that_breaks_its_schema_is_refused(api, schema, spec, wrong):
    await api.define(with_schema(schema))

    status, answer = await api.create(spec=spec)

    assert (status, causes(answer)) == (422, wrong)


async def test_a_rule_about_changes_holds_for_what_is_new(api):
    await api.define(with_schema(ruled("self.n == oldSelf.n", message="n is immutable")))
    assert (await api.create(spec={"n": 1}))[0] == 201

    status, answer = await api.ask("PATCH", f"{OBJECTS}/a", {"spec": {"n": 2}})

    assert (status, causes(answer)) == (422, ["spec: Invalid value: n is immutable"])
    assert (await api.ask("PATCH", f"{OBJECTS}/a", {"spec": {"m": 2}}))[0] == 200


async def test_a_rule_with_an_optional_old_value_is_tried_on_new_objects_too(api):
    rule = "oldSelf.hasValue() ? self.n >= oldSelf.value().n : self.n == 0"
    await api.define(with_schema(ruled(rule, optionalOldSelf=True, message="begins at 0, never shrinks")))

    assert (await api.create(spec={"n": 1}))[0] == 422
    assert (await api.create(spec={"n": 0}))[0] == 201
    assert (await api.ask("PATCH", f"{OBJECTS}/a", {"spec": {"n": 5}}))[0] == 200
    assert (await api.ask("PATCH", f"{OBJECTS}/a", {"spec": {"n": 4}}))[0] == 422


async def test_a_rule_that_was_added_does_not_hold_for_what_stays_as_it_was(api):
    await api.define(
        with_schema({"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}})
    )
    await api.create(spec={"n": 1})
    later = with_schema(
        {"type": "object", "properties": {"m": {"type": "integer"}, "n": {"type": "integer", "minimum": 5}}}
    )
    await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", {"spec": {"versions": later["spec"]["versions"]}})

    assert (await api.ask("PATCH", f"{OBJECTS}/a", {"spec": {"m": 2}}))[0] == 200
    assert (await api.ask("PATCH", f"{OBJECTS}/a", {"spec": {"n": 2}}))[0] == 422


async def test_the_status_is_checked_where_it_is_written(api):
    await api.define(definition())
    await api.create(spec={"gpus": 1})

    status, answer = await api.ask("PATCH", f"{OBJECTS}/a/status", {"status": {"phase": 5}})

    assert status == 422
    assert causes(answer) == [
        'status.phase: Invalid value: "integer": phase in body must be of type string: "integer"',
        (
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        ),
    ]


async def test_without_a_status_subresource_the_status_is_a_field_like_any_other(api):
    await api.define(definition(versions=[{**VERSION, "subresources": {}}]))

    _, made = await api.create(spec={"gpus": 1}, status={"phase": "X"})

    assert made["status"] == {"phase": "X"}
    _, changed = await api.ask("PATCH", f"{OBJECTS}/a", {"status": {"phase": "Y"}})
    assert (changed["status"], changed["metadata"]["generation"]) == ({"phase": "Y"}, 2)


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        pytest.param("self.n >", "Syntax error", id="no-expression"),
        pytest.param("foo(self.n)", "undeclared reference to 'foo'", id="unknown-function"),
    ],
)
async def test_a_rule_that_cannot_be_compiled_is_refused_with_its_definition(api, rule, wrong):
    status, answer = await api.ask("POST", DEFINITIONS, with_schema(ruled(rule)))

    assert status == 422
    [cause] = answer["details"]["causes"]
    assert cause["field"].endswith("properties[spec].x-kubernetes-validations[0].rule")
    assert "compilation failed: ERROR: <input>:1:" in cause["message"]
    assert wrong in cause["message"]


async def test_a_column_whose_path_cannot_be_read_leaves_the_default_columns(api):
    column = {"name": "Bad", "type": "string", "jsonPath": ".spec[x"}
    await api.define(definition(versions=[{**VERSION, "additionalPrinterColumns": [column]}]))
    await api.create(spec={"gpus": 1})

    kind = api.server.catalog.find(GROUP, "v1alpha1", "reservations")
    assert [each.name for each in kind.columns] == [each.name for each in Kind(name="X", plural="xs").columns]
