"""The recorded structure of the built-in kinds, and how it is read."""

from localplane.kinds.builtin import builtin_kinds
from localplane.schemas import openapi_reader
from localplane.schemas.builtin_schemas import OBJECT_META, Dialect, load_builtin_schemas
from localplane.schemas.schema import ElementRelationship
from tests.violations import for_each

STOCK = load_builtin_schemas(Dialect.STOCK)
KEP = load_builtin_schemas(Dialect.KEP)


@for_each(builtin_kinds(), name=lambda kind: kind.group_resource)
def test_every_built_in_kind_has_its_structure(kind):
    schema = STOCK.find(kind.group, kind.version, kind.name)

    assert schema is not None
    assert schema.fields["metadata"].fields["name"].type == "string"


def test_lists_know_how_they_are_merged():
    spec = STOCK.find("", "v1", "Pod").fields["spec"]
    containers, tolerations = spec.fields["containers"], spec.fields["tolerations"]

    assert (containers.relationship, containers.list_map_keys, containers.merge_key) == (
        ElementRelationship.MAP,
        ("name",),
        "name",
    )
    assert containers.items.fields["ports"].list_map_keys == ("containerPort", "protocol")
    assert tolerations.relationship is ElementRelationship.ATOMIC
    assert STOCK.definition(OBJECT_META).fields["finalizers"].relationship is ElementRelationship.SET


def test_fields_know_their_go_types():
    probe = STOCK.find("", "v1", "Pod").fields["spec"].fields["containers"].items.fields["livenessProbe"]

    assert (probe.go_type, probe.pointer) == ("*v1.Probe", True)
    assert probe.fields["httpGet"].embedded_struct == "ProbeHandler"


def test_the_kep_dialect_adds_the_fields_of_kep_5194_to_claims_and_templates():
    for kind, path in (("ResourceClaim", ["spec"]), ("ResourceClaimTemplate", ["spec", "spec"])):
        stock, kep = (each.find("resource.k8s.io", "v1", kind) for each in (STOCK, KEP))
        for step in path:
            stock, kep = stock.fields[step], kep.fields[step]
        assert kep.fields.keys() - stock.fields.keys() == {"reservedFor"}
        assert set(kep.fields["reservedFor"].fields) == {"apiGroup", "resource", "name", "uid"}
    allocation = KEP.find("resource.k8s.io", "v1", "ResourceClaim").fields["status"].fields["allocation"]
    assert allocation.fields["reservedForAnyPod"].type == "boolean"


def test_the_file_has_no_sentence_of_upstream():
    assert "description" not in {
        key for definition in STOCK.definitions.values() for key in definition if key != "properties"
    }


def test_a_custom_schema_has_the_metadata_of_all_objects_and_keeps_what_it_is_told_to():
    source = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "empty": {"type": "object"},
                    "port": {"x-kubernetes-int-or-string": True},
                },
            }
        },
    }
    schema = openapi_reader.custom_resource_schema(
        source, metadata=STOCK.definition(OBJECT_META), kind=("x.io", "v1", "X")
    )
    spec = schema.fields["spec"]

    assert schema.fields["metadata"].fields["labels"].is_map
    assert (spec.fields["free"].preserve, spec.fields["empty"].preserve) == (True, False)
    assert spec.fields["port"].format == "int-or-string"
