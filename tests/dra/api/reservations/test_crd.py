"""Our own control plane takes the definition and does with Reservations what it says."""

import pytest

from dra.api.reservations.crd import custom_resource_definition
from dra.api.reservations.model import parse_reservation
from dra.cli.kubectl.declarations.management import reserve
from dra.engine.reservations.phases import DEFAULT_TTL
from tests.dra.api.reservations.manifests import manifest
from tests.localplane.crds.example import CustomResourceApi

OBJECTS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"


@pytest.fixture
async def api():
    api = CustomResourceApi()
    await api.define(custom_resource_definition())
    return api


async def create(api, **spec):
    return await api.ask("POST", OBJECTS, manifest(**spec))


async def test_a_manifest_of_the_manual_is_taken_as_it_is_and_can_be_read(api):
    status, made = await create(api)
    assert status == 201, made
    assert made["spec"] == manifest()["spec"] | {"allocateOnce": True}
    assert parse_reservation(made).spec == parse_reservation(manifest()).spec


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"ttl": None, "expires": "2026-11-22T10:00:00Z"}, id="expires-alone"),
        pytest.param({"ttl": "0s", "expires": "2026-11-22T10:00:00Z"}, id="both"),
        pytest.param({"ttl": "24h0m0s"}, id="as-go-prints-it"),
        pytest.param({"ttl": "1h30m"}, id="as-people-write-it"),
        pytest.param({"ttl": None}, id="neither"),
        pytest.param({"owners": [{"controller": {"kind": "Job", "name": "a"}}]}, id="controller-without-uid"),
        pytest.param(
            {
                "owners": [
                    {
                        "controller": {
                            "apiVersion": "apps/v1",
                            "kind": "ReplicaSet",
                            "name": "a",
                            "uid": "u",
                            "controller": True,
                            "blockOwnerDeletion": True,
                            "namespace": "b",
                        }
                    }
                ]
            },
            id="controller-with-everything",
        ),
        pytest.param(
            {"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}, id="exists"
        ),
        pytest.param({"allocatePolicy": "Restricted", "allocateOnce": False}, id="policy"),
        pytest.param(
            {"preAllocation": True, "allocatePolicy": "Restricted", "preAllocationPolicy": {"mode": "Cluster"}},
            id="pre-allocation",
        ),
        pytest.param({"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}, id="taints"),
    ],
)
async def test_what_is_right_is_taken(api, spec):
    status, made = await create(api, **spec)
    assert status == 201, made
    assert made["spec"].items() >= parse_reservation(manifest(**spec)).model_dump(include=set()).items()


async def test_the_phase_is_pending_before_anybody_has_seen_it(api):
    """kubectl get showed an empty PHASE while no controller and no scheduler had written a status."""
    _, made = await create(api)
    assert made["status"] == {"phase": "Pending"}


NOTHING = "an owner that says nothing would be every pod; give object, controller or labelSelector"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"owners": None}, "spec.owners", "Required value", id="no-owners"),
        pytest.param({"owners": []}, "spec.owners", "should have at least 1 items", id="nobody"),
        pytest.param({"owners": [{}]}, "spec.owners[0]", NOTHING, id="an-owner-that-says-nothing"),
        pytest.param({"owners": [{"object": {}}]}, "spec.owners[0].object", "names nothing", id="any-object"),
        pytest.param({"owners": [{"object": {"kind": "Pod"}}]}, "spec.owners[0].object", "names nothing", id="any-pod"),
        pytest.param(
            {"owners": [{"controller": {"kind": "Job"}}]},
            "spec.owners[0].controller",
            "names no workload",
            id="any-job",
        ),
        pytest.param(
            {"owners": [{"labelSelector": {}}]}, "spec.owners[0].labelSelector", "an empty selector", id="any-labels"
        ),
        pytest.param(
            {"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]},
            "spec.owners[0].labelSelector.matchExpressions[0]",
            "In and NotIn need values",
            id="in-nothing",
        ),
        pytest.param(
            {"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": [""]}]}}]},
            "spec.owners[0].labelSelector.matchExpressions[0]",
            "Exists and DoesNotExist take no values",
            id="exists-with-values",
        ),
        pytest.param(
            {"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]},
            "spec.owners[0].labelSelector.matchExpressions[0].operator",
            'Unsupported value: "Is"',
            id="operator",
        ),
        pytest.param({"template": None}, "spec.template", "Required value", id="no-template"),
        pytest.param({"template": {}}, "spec.template", "reserves nothing", id="empty-template"),
        pytest.param({"template": {"spec": {"containers": []}}}, "spec.template", "reserves nothing", id="nothing"),
        pytest.param({"ttl": "1d"}, "spec.ttl", "must be a duration of 0s or more", id="days"),
        pytest.param({"ttl": "-1h"}, "spec.ttl", "must be a duration of 0s or more", id="in-the-past"),
        pytest.param({"ttl": ""}, "spec.ttl", "must be a duration of 0s or more", id="empty-ttl"),
        pytest.param({"ttl": 60}, "spec.ttl", 'must be of type string: "integer"', id="number"),
        pytest.param({"expires": "tomorrow"}, "spec.expires", "must be of type date-time", id="expires"),
        pytest.param({"allocatePolicy": "Strict"}, "spec.allocatePolicy", 'Unsupported value: "Strict"', id="policy"),
        pytest.param({"allocateOnce": "yes"}, "spec.allocateOnce", "must be of type boolean", id="boolean"),
        pytest.param({"taints": [{"key": "a"}]}, "spec.taints[0].effect", "Required value", id="taint"),
        pytest.param(
            {"taints": [{"key": "a", "effect": "Never"}]},
            "spec.taints[0].effect",
            'Unsupported value: "Never"',
            id="effect",
        ),
        pytest.param(
            {"preAllocationPolicy": {"mode": "All"}}, "spec.preAllocationPolicy.mode", "Unsupported value", id="mode"
        ),
    ],
)
async def test_what_is_wrong_is_refused_with_the_field_named(api, spec, field, message):
    status, answer = await create(api, **spec)
    assert status == 422, answer
    causes = {cause["field"]: cause["message"] for cause in answer["details"]["causes"]}
    assert message in causes[field], causes


async def test_status_is_written_by_its_own_path_only(api):
    await create(api)
    _, made = await api.ask("PATCH", f"{OBJECTS}/demo", {"status": {"phase": "Available"}})
    assert made["status"] == {"phase": "Pending"}

    _, made = await api.ask("PATCH", f"{OBJECTS}/demo/status", {"status": {"nodeName": "n1"}})

    assert made["status"] == {"phase": "Pending", "nodeName": "n1"}


def test_the_texts_for_users_name_the_default_of_ttl():
    """Nobody who changes `DEFAULT_TTL` should have to find these texts by a search."""
    default = f"{DEFAULT_TTL / 3600:g}h"
    version = custom_resource_definition()["spec"]["versions"][0]
    (column,) = (column for column in version["additionalPrinterColumns"] if column["name"] == "TTL")
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    (option,) = (param for param in reserve.params if param.name == "ttl")
    for text in (column["description"], spec["properties"]["ttl"]["description"], option.help):
        assert default in text, text


def test_a_table_shows_phase_and_age_and_more_when_asked():
    described = custom_resource_definition()["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [(column["name"], column.get("priority", 0)) for column in described] == [
        ("Phase", 0),
        ("Age", 0),
        ("Claims", 0),
        ("Node", 1),
        ("TTL", 1),
        ("Expires", 1),
    ]
