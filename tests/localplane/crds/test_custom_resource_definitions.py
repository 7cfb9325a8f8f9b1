"""Definitions: what they make, when they go, and what is wrong with some."""

import pytest

from localplane.crds import validation_rules
from tests.localplane.crds.example import DEFINITIONS, GROUP, OBJECTS, VERSION, definition, with_schema

NAME = f"reservations.{GROUP}"
PATH = "spec.validation.openAPIV3Schema"


def conditions(obj):
    return {each["type"]: (each["status"], each["reason"]) for each in obj["status"]["conditions"]}


async def test_the_answer_to_a_definition_comes_before_its_names_are_accepted(api):
    answer = await api.define(definition())

    assert answer["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1alpha1"],
    }
    assert answer["spec"]["names"]["singular"] == "reservation"
    assert answer["spec"]["names"]["listKind"] == "ReservationList"
    assert answer["spec"]["conversion"] == {"strategy": "None"}


async def test_a_definition_is_established_and_served_at_once(api):
    await api.define(definition())

    _, found = await api.ask("GET", f"{DEFINITIONS}/{NAME}")
    assert conditions(found) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    status, created = await api.create(spec={"gpus": 2}, status={"phase": "X"})
    assert (status, created["spec"]) == (201, {"gpus": 2})
    assert "status" not in created
    _, listed = await api.ask("GET", OBJECTS)
    assert (listed["kind"], len(listed["items"])) == ("ReservationList", 1)


async def test_names_that_another_definition_of_the_group_has_are_not_accepted(api):
    await api.define(definition())
    await api.define(definition(names={"plural": "others", "kind": "Reservation", "shortNames": ["rsv"]}))

    _, found = await api.ask("GET", f"{DEFINITIONS}/others.{GROUP}")
    assert conditions(found) == {
        "NamesAccepted": ("False", "ShortNamesConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert (await api.ask("GET", f"/apis/{GROUP}/v1alpha1/others"))[0] == 404


async def test_names_that_become_free_are_given_to_who_waits_for_them(api):
    await api.define(definition())
    await api.define(definition(names={"plural": "others", "kind": "Reservation"}))

    await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")

    _, found = await api.ask("GET", f"{DEFINITIONS}/others.{GROUP}")
    assert conditions(found)["Established"][0] == "True"
    assert (await api.ask("GET", f"/apis/{GROUP}/v1alpha1/others"))[0] == 200


async def test_a_deleted_definition_goes_with_its_objects(api):
    await api.define(definition())
    await api.create(spec={"gpus": 1})

    status, answer = await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")

    assert (status, answer["kind"]) == (200, "CustomResourceDefinition")
    assert answer["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(answer)["Terminating"] == ("True", "InstanceDeletionPending")
    assert (await api.ask("GET", f"{DEFINITIONS}/{NAME}"))[0] == 404
    assert (await api.ask("GET", OBJECTS))[0] == 404
    assert api.server.store.snapshot(NAME) == []


async def test_a_definition_waits_for_an_object_that_is_held(api):
    await api.define(definition())
    await api.create(spec={"gpus": 1})
    await api.ask("PATCH", f"{OBJECTS}/a", {"metadata": {"finalizers": ["x.example.com/f"]}})

    await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")
    assert (await api.ask("GET", f"{DEFINITIONS}/{NAME}"))[0] == 200

    await api.ask("PATCH", f"{OBJECTS}/a", {"metadata": {"finalizers": None}})
    assert (await api.ask("GET", f"{DEFINITIONS}/{NAME}"))[0] == 404


async def test_a_changed_definition_takes_effect(api):
    await api.define(definition())
    changed = definition(versions=[{**VERSION, "subresources": {"status": {}, "scale": SCALE}}])

    status, _ = await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", {"spec": {"versions": changed["spec"]["versions"]}})

    assert status == 200
    await api.create(spec={"gpus": 3})
    _, scale = await api.ask("GET", f"{OBJECTS}/a/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 3}, {"replicas": 0})


SCALE = {"specReplicasPath": ".spec.gpus", "statusReplicasPath": ".status.gpus"}


async def test_scaling_changes_the_replicas_alone(api):
    await api.define(definition(versions=[{**VERSION, "subresources": {"status": {}, "scale": SCALE}}]))
    await api.create(spec={"gpus": 3})

    status, scale = await api.ask("PATCH", f"{OBJECTS}/a/scale", {"spec": {"replicas": 5}})

    assert (status, scale["spec"]) == (200, {"replicas": 5})
    _, found = await api.ask("GET", f"{OBJECTS}/a")
    assert (found["spec"], found["metadata"]["generation"]) == ({"gpus": 5}, 2)


async def test_an_object_is_the_same_in_all_versions(api):
    newer = {**VERSION, "name": "v1", "storage": False}
    await api.define(definition(versions=[VERSION, newer]))
    await api.create(spec={"gpus": 3})

    _, found = await api.ask("GET", f"/apis/{GROUP}/v1/namespaces/default/reservations/a")
    assert (found["apiVersion"], found["spec"]) == (f"{GROUP}/v1", {"gpus": 3})
    path = f"/apis/{GROUP}/v1/namespaces/default/reservations"
    status, made = await api.create("b", path=path, version="v1", spec={"gpus": 1})
    assert (status, made["apiVersion"]) == (201, f"{GROUP}/v1")
    _, found = await api.ask("GET", f"{OBJECTS}/b")
    assert found["apiVersion"] == f"{GROUP}/v1alpha1"


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        pytest.param(
            {"type": "array", "items": [{"type": "string"}]},
            [f"{PATH}.properties[spec].items: Forbidden: items must be a schema object and not an array"],
            id="items-of-many-schemas",
        ),
        pytest.param(
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self + 1"}]},
            [
                (
                    f"{PATH}.properties[spec].x-kubernetes-validations[0].rule: Invalid value: "
                    '{"Rule":"self + 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"",'
                    '"OptionalOldSelf":null}: cel expression must evaluate to a bool'
                )
            ],
            id="rule-that-is-no-question",
        ),
        pytest.param(
            {"type": "string", "pattern": "("},
            [
                (
                    f'{PATH}.properties[spec].pattern: Invalid value: "(": must be a valid regular expression, '
                    "but isn't: error parsing regexp: missing closing ): `(`"
                )
            ],
            id="pattern-that-is-none",
        ),
    ],
)
async def test_a_schema_that_cannot_be_enforced_is_refused(api, schema, wrong):
    status, answer = await api.ask("POST", DEFINITIONS, with_schema(schema))

    assert status == 422
    assert [f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]] == wrong


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        pytest.param({"group": "nodots"}, "spec.group", id="group-without-a-dot"),
        pytest.param({"scope": "Galactic"}, "spec.scope", id="unknown-scope"),
        pytest.param({"versions": [{**VERSION, "storage": False}]}, "spec.versions", id="nothing-stored"),
        pytest.param({"versions": [VERSION, VERSION]}, "spec.versions", id="a-version-twice"),
        pytest.param({"names": {"plural": "UPPER"}}, "spec.names.plural", id="plural-with-capitals"),
    ],
)
async def test_a_definition_that_makes_no_sense_is_refused(api, change, wrong):
    status, answer = await api.ask("POST", DEFINITIONS, definition(**change))

    assert status == 422
    assert wrong in {cause["field"] for cause in answer["details"]["causes"]}


async def test_a_schema_that_is_not_structural_is_taken_and_prunes_what_it_hides(api):
    """Upstream refuses such a definition; here its objects lose the fields that have no schema."""
    hidden = {"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}], "properties": {"b": {}}}
    await api.define(with_schema(hidden))

    status, made = await api.create(spec={"a": "x", "b": 1, "c": 1})

    assert (status, made["spec"]) == (201, {"b": 1})


@pytest.mark.parametrize("inner", [{"items": {"type": 5}}, {"additionalProperties": {"properties": []}}])
async def test_a_schema_inside_of_a_schema_has_its_types(api, inner):
    assert (await api.ask("POST", DEFINITIONS, with_schema({"type": "object", **inner})))[0] == 400


@pytest.mark.parametrize("spec", [{"versions": {}}, {"names": []}, {"versions": [{"name": 1}]}, {"scope": 5}])
async def test_a_definition_of_the_wrong_shape_is_no_definition(api, spec):
    body = definition()
    body["spec"] |= spec

    assert (await api.ask("POST", DEFINITIONS, body))[0] == 400


async def test_what_a_definition_is_about_cannot_change(api):
    await api.define(definition())

    status, answer = await api.ask("PATCH", f"{DEFINITIONS}/{NAME}", {"spec": {"scope": "Cluster"}})

    assert status == 422
    assert "spec.scope" in {cause["field"] for cause in answer["details"]["causes"]}


async def test_definitions_survive_a_restore(api):
    await api.define(definition())
    saved = list(api.server.store.snapshot("customresourcedefinitions.apiextensions.k8s.io"))

    api.server.store.restore([], revision=5)
    assert (await api.ask("GET", OBJECTS))[0] == 404
    api.server.store.restore(saved, revision=50)
    assert (await api.ask("GET", OBJECTS))[0] == 200


@pytest.mark.parametrize(
    ("schema", "is_boolean"),
    [
        pytest.param({"type": "string"}, True, id="string"),
        pytest.param({"type": "integer"}, False, id="integer"),
        pytest.param({"type": "array", "items": {"type": "string"}}, False, id="list"),
    ],
)
def test_a_rule_that_was_compiled_for_another_type_is_compiled_again(schema, is_boolean):
    rule = {"rule": "self.startsWith('a')"}
    validation_rules.compile_rule(rule, {"type": "string"})
    if is_boolean:
        assert validation_rules.compile_rule(rule, schema).spec is rule
    else:
        with pytest.raises(validation_rules.RuleCompilationError):
            validation_rules.compile_rule(rule, schema)


def test_a_rule_is_compiled_once_for_all_kinds_with_the_same_type():
    before = {"rule": "self.size() > 41", "message": "is short"}
    after = before | {"message": "is too short"}
    first, second = (validation_rules.compile_rule(rule, {"type": "string"}) for rule in (before, after))
    assert first.expression is second.expression
    assert (first.spec, second.spec) == (before, after)
    optional = validation_rules.compile_rule(before | {"optionalOldSelf": True}, {"type": "string"})
    assert optional.expression is not first.expression
