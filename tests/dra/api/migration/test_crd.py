"""Our own control plane takes the definition and does with PodMigrationJobs what it says."""

import pytest

from dra.api.migration.crd import custom_resource_definition
from dra.api.migration.model import parse_pod_migration_job
from tests.dra.api.migration.manifests import manifest, with_template
from tests.localplane.crds.example import CustomResourceApi

OBJECTS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
CONTAINERS = [{"name": "a", "image": "b", "resources": {"requests": {"cpu": "1"}}}]
REFERENCE = {"reservationRef": {"name": "r"}}


@pytest.fixture
async def api():
    api = CustomResourceApi()
    await api.define(custom_resource_definition())
    return api


async def create(api, **spec):
    return await api.ask("POST", OBJECTS, manifest(**spec))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="the-manual-s"),
        pytest.param({"mode": None, "ttl": None, "paused": None}, id="the-pod-alone"),
        pytest.param({"mode": ""}, id="the-empty-mode"),
        pytest.param({"mode": "EvictDirectly"}, id="evict-directly"),
        pytest.param({"ttl": "0s"}, id="unlimited"),
        pytest.param({"ttl": "5m0s"}, id="as-go-prints-it"),
        pytest.param({"ttl": "1h30m"}, id="as-people-write-it"),
        pytest.param(
            {
                "podRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": "a",
                    "name": "b.c",
                    "uid": "u",
                    "resourceVersion": "1",
                }
            },
            id="a-whole-reference",
        ),
        pytest.param({"reservationOptions": {}}, id="no-options"),
        pytest.param({"reservationOptions": REFERENCE}, id="a-reservation"),
        pytest.param({"reservationOptions": {"preemptionOptions": {}}}, id="preemption"),
        pytest.param({"reservationOptions": {"template": {}}}, id="an-empty-template"),
        pytest.param({"reservationOptions": {"template": {"metadata": {"labels": {"a": "b"}}}}}, id="labels"),
        pytest.param(with_template(ttl="1h"), id="a-lifetime"),
        pytest.param(with_template(template={"spec": {"containers": CONTAINERS}}), id="a-template"),
        pytest.param(with_template(template={"metadata": {"labels": {"a": "b"}}}), id="a-pod-template-without-spec"),
        pytest.param(with_template(owners=[{"object": {"name": "a"}}]), id="owners"),
        pytest.param({"deleteOptions": {"gracePeriodSeconds": 0}}, id="no-grace"),
        pytest.param(
            {"deleteOptions": {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": []}}, id="typed-options"
        ),
    ],
)
async def test_what_is_right_is_taken_as_it_is_and_can_be_read(api, spec):
    status, made = await create(api, **spec)
    assert status == 201, made
    assert made["spec"] == manifest(**spec)["spec"]
    assert parse_pod_migration_job(made).spec == parse_pod_migration_job(manifest(**spec)).spec


@pytest.mark.parametrize("field", ["paused", "ttl", "mode", "reservationOptions", "deleteOptions"])
async def test_a_null_is_an_absent_field(api, field):
    whole = manifest()
    whole["spec"][field] = None
    status, made = await api.ask("POST", OBJECTS, whole)
    assert status == 201, made
    assert field not in made["spec"]


DURATION = "must be a duration of 0s or more, for example 5m or 1h30m"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"podRef": None}, "spec.podRef", "Required value", id="no-pod"),
        pytest.param({"podRef": {"name": "a"}}, "spec.podRef.namespace", "Required value", id="no-namespace"),
        pytest.param({"podRef": {"namespace": "a"}}, "spec.podRef.name", "Required value", id="no-name"),
        pytest.param(
            {"podRef": {"namespace": "a", "name": ""}}, "spec.podRef.name", "at least 1 chars long", id="empty-name"
        ),
        pytest.param(
            {"podRef": {"namespace": "", "name": "a"}},
            "spec.podRef.namespace",
            "at least 1 chars",
            id="empty-namespace",
        ),
        pytest.param(
            {"podRef": {"namespace": "a", "name": "B_c"}}, "spec.podRef.name", "should match", id="no-name-of-a-pod"
        ),
        pytest.param(
            {"podRef": {"kind": "Deployment", "namespace": "a", "name": "b"}},
            "spec.podRef",
            "is not a pod; name a pod",
            id="a-workload",
        ),
        pytest.param({"mode": "reservationFirst"}, "spec.mode", "Unsupported value", id="mode"),
        pytest.param({"mode": 1}, "spec.mode", "Unsupported value: 1", id="mode-number"),
        pytest.param({"ttl": "1d"}, "spec.ttl", DURATION, id="days"),
        pytest.param({"ttl": "-5m"}, "spec.ttl", DURATION, id="in-the-past"),
        pytest.param({"ttl": ""}, "spec.ttl", DURATION, id="empty-ttl"),
        pytest.param({"ttl": 60}, "spec.ttl", "must be of type string", id="ttl-number"),
        pytest.param({"paused": "yes"}, "spec.paused", "must be of type boolean", id="paused"),
        pytest.param(
            {"reservationOptions": {"reservationRef": {}}},
            "spec.reservationOptions.reservationRef.name",
            "Required value",
            id="any-reservation",
        ),
        pytest.param(
            {"reservationOptions": {"reservationRef": {"kind": "Pod", "name": "r"}}},
            "spec.reservationOptions.reservationRef",
            "is not a Reservation",
            id="another-kind",
        ),
        pytest.param(
            {"reservationOptions": {**REFERENCE, "template": {}}},
            "spec.reservationOptions",
            "not both",
            id="reference-and-template",
        ),
        pytest.param(
            {"mode": "EvictDirectly", "reservationOptions": REFERENCE},
            "spec.mode",
            "reserves nothing; leave reservationOptions out",
            id="reserve-and-evict-directly",
        ),
        pytest.param(
            with_template(template={"spec": {"containers": []}}),
            "spec.reservationOptions.template.spec.template",
            "reserves nothing",
            id="no-containers",
        ),
        pytest.param(
            with_template(ttl="1d"), "spec.reservationOptions.template.spec.ttl", "must be a duration", id="lifetime"
        ),
        pytest.param(
            with_template(owners=[{}]),
            "spec.reservationOptions.template.spec.owners[0]",
            "an owner that says nothing",
            id="any-pod",
        ),
        pytest.param(
            {"deleteOptions": {"gracePeriodSeconds": -1}},
            "spec.deleteOptions.gracePeriodSeconds",
            "greater than or equal to 0",
            id="grace-period",
        ),
        pytest.param(
            {"deleteOptions": {"dryRun": ["All"]}}, "spec.deleteOptions", "dryRun evicts nothing", id="dry-run"
        ),
        pytest.param(
            {"deleteOptions": {"propagationPolicy": "background"}},
            "spec.deleteOptions.propagationPolicy",
            "Unsupported value",
            id="propagation",
        ),
    ],
)
async def test_what_is_wrong_is_refused_with_the_field_named(api, spec, field, message):
    status, answer = await create(api, **spec)
    assert status == 422, answer
    causes = {cause["field"]: cause["message"] for cause in answer["details"]["causes"]}
    assert message in causes[field], causes


@pytest.mark.parametrize(
    ("before", "change", "field", "message"),
    [
        pytest.param({}, {"podRef": {"name": "other"}}, "spec.podRef", "name and namespace cannot change", id="name"),
        pytest.param({}, {"podRef": {"namespace": "b"}}, "spec.podRef", "name and namespace cannot", id="namespace"),
        pytest.param(
            {"podRef": {"namespace": "a", "name": "b", "uid": "1"}},
            {"podRef": {"uid": "2"}},
            "spec.podRef",
            "uid cannot change",
            id="uid",
        ),
        pytest.param(
            {"podRef": {"namespace": "a", "name": "b", "uid": "1"}},
            {"podRef": {"uid": None}},
            "spec.podRef",
            "uid cannot change",
            id="uid-removed",
        ),
        pytest.param({}, {"mode": "EvictDirectly"}, "spec.mode", "cannot change", id="mode"),
    ],
)
async def test_a_job_stays_about_the_same_pod_and_mode(api, before, change, field, message):
    await create(api, **before)
    status, answer = await api.ask("PATCH", f"{OBJECTS}/demo", {"spec": change})
    assert status == 422, answer
    assert message in {cause["field"]: cause["message"] for cause in answer["details"]["causes"]}[field]


async def test_the_descheduler_writes_what_it_has_found_out(api):
    await create(api, ttl=None, mode="", **with_template(ttl="1h"))
    for found in (
        {"podRef": {"uid": "u"}, "ttl": "5m0s", "mode": "ReservationFirst"},
        {"reservationOptions": {"reservationRef": {"name": "r", "uid": "v"}}},
        {"paused": True},
    ):
        status, made = await api.ask("PATCH", f"{OBJECTS}/demo", {"spec": found})
        assert status == 200, made
    assert set(made["spec"]["reservationOptions"]) == {"template", "reservationRef"}
    status, made = await api.ask("PATCH", f"{OBJECTS}/demo", {"spec": {"mode": ""}})
    assert status == 200, "applied again as it was written"


async def test_status_is_written_by_its_own_path_only(api):
    await create(api)
    _, made = await api.ask("PATCH", f"{OBJECTS}/demo", {"status": {"phase": "Running"}})
    assert "status" not in made

    _, made = await api.ask("PATCH", f"{OBJECTS}/demo/status", {"status": {"phase": "Running"}})

    assert made["status"] == {"phase": "Running"}


def test_a_table_has_koordinator_s_columns():
    described = custom_resource_definition()["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [(column["name"], column["jsonPath"], column.get("priority", 0)) for column in described] == [
        ("Phase", ".status.phase", 0),
        ("Status", ".status.status", 0),
        ("Age", ".metadata.creationTimestamp", 0),
        ("Node", ".status.nodeName", 0),
        ("Reservation", ".spec.reservationOptions.reservationRef.name", 0),
        ("PodNamespace", ".spec.podRef.namespace", 0),
        ("Pod", ".spec.podRef.name", 0),
        ("NewPod", ".status.podRef.name", 0),
        ("TTL", ".spec.ttl", 0),
    ]
