import pytest

from dra.api.durations import SECOND
from dra.api.migration.model import (
    MalformedPodMigrationJobError,
    MigrationMode,
    MigrationPhase,
    PodMigrationJobStatus,
    parse_pod_migration_job,
)
from dra.api.object_fields import ObjectReference, to_document
from tests.dra.api.migration.manifests import manifest, with_template
from tests.violations import for_each_case


def test_what_is_not_written_is_known_to_be_absent():
    spec = parse_pod_migration_job(manifest(paused=None, ttl=None, mode=None)).spec
    assert (spec.paused, spec.ttl, spec.mode) == (False, None, None)
    assert (spec.reservation_options, spec.delete_options) == (None, None)


def test_the_empty_mode_and_nulls_are_absent_fields_as_in_go():
    spec = parse_pod_migration_job(
        manifest() | {"spec": {"mode": "", "paused": None, "ttl": None, "podRef": None}}
    ).spec
    assert (spec.mode, spec.paused, spec.ttl, spec.pod_ref) == (None, False, None, ObjectReference())


def test_a_time_to_live_of_zero_is_not_an_absent_one():
    assert parse_pod_migration_job(manifest(ttl="0s")).spec.ttl == 0
    assert parse_pod_migration_job(manifest(ttl="1m30s")).spec.ttl == 90 * SECOND


def test_a_fresh_object_without_a_phase_is_pending():
    assert parse_pod_migration_job(manifest() | {"status": {"phase": ""}}).status.phase is MigrationPhase.PENDING
    assert parse_pod_migration_job(manifest()).status == PodMigrationJobStatus()


def test_template_and_options_of_the_eviction_are_kept_with_all_that_is_unknown_in_them():
    given = manifest(**with_template(newer=1), deleteOptions={"newer": 2})
    spec = parse_pod_migration_job(given).spec
    assert spec.reservation_options.template == {"spec": {"newer": 1}}
    assert spec.delete_options == {"newer": 2}


def test_what_is_written_is_what_was_read():
    given = manifest(paused=True, mode="EvictDirectly", ttl="5m0s", deleteOptions={"gracePeriodSeconds": 0})
    back = to_document(parse_pod_migration_job(given))
    assert back["spec"] == given["spec"]
    assert parse_pod_migration_job(back) == parse_pod_migration_job(given)


def test_a_status_of_koordinator_is_read():
    condition = {
        "type": "Eviction",
        "status": "True",
        "reason": "EvictComplete",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-11-22T10:00:00Z",
    }
    status = parse_pod_migration_job(
        manifest()
        | {
            "status": {
                "phase": "Running",
                "status": "Eviction",
                "reason": "EvictComplete",
                "nodeName": "n1",
                "podRef": {"namespace": "default", "name": "new"},
                "conditions": [condition],
                "newer": 1,
            }
        }
    ).status
    assert (status.phase, status.node_name, status.pod_ref.name) == (MigrationPhase.RUNNING, "n1", "new")
    assert status.condition("Eviction").status == "True"
    assert status.condition("ReservationCreated") is None


def test_the_modes_are_koordinators():
    assert [each.value for each in MigrationMode] == ["ReservationFirst", "EvictDirectly"]


@for_each_case(
    [
        pytest.param({"pause": True}, "spec.pause: unknown field; did you mean paused?", id="typo"),
        pytest.param({"mode": "Evict"}, "spec.mode: input should be", id="mode"),
        pytest.param({"ttl": "1 day"}, "spec.ttl: '1 day' is not a duration, for example 24h", id="ttl"),
        pytest.param({"ttl": 5}, "spec.ttl: a number is not a duration", id="ttl-number"),
        pytest.param({"paused": "yes"}, "spec.paused: input should be a valid boolean", id="paused"),
        pytest.param({"podRef": {"name": 7}}, "spec.podRef.name: input should be a valid string", id="name"),
        pytest.param(
            {"reservationOptions": {"reservation": {}}},
            "spec.reservationOptions.reservation: unknown field; did you mean reservationRef?",
            id="typo-below",
        ),
    ]
)
def test_a_malformed_one_is_refused_with_its_name_and_the_field(spec, complaint):
    with pytest.raises(MalformedPodMigrationJobError) as refused:
        parse_pod_migration_job(manifest(**spec))
    assert str(refused.value).startswith(f"podmigrationjob demo: {complaint}")


def test_an_object_without_a_spec_is_refused():
    with pytest.raises(MalformedPodMigrationJobError, match=r"^podmigrationjob \?: spec: required"):
        parse_pod_migration_job({})
