from datetime import UTC, datetime

import pytest

from dra.api.object_fields import to_document
from dra.api.reservations.model import (
    AllocatePolicy,
    MalformedReservationError,
    ReservationPhase,
    ReservationStatus,
    parse_reservation,
)
from tests.dra.api.reservations.manifests import manifest
from tests.violations import for_each_case


def test_what_is_not_written_has_its_default_and_the_lifetime_is_known_to_be_absent():
    spec = parse_reservation(manifest(ttl=None)).spec
    assert (spec.allocate_once, spec.allocate_policy, spec.pre_allocation) == (True, AllocatePolicy.DEFAULT, False)
    assert (spec.ttl, spec.expires) == (None, None)


def test_a_fresh_object_without_a_phase_is_pending():
    assert parse_reservation(manifest() | {"status": {"phase": ""}}).status.phase is ReservationPhase.PENDING
    assert parse_reservation(manifest()).status == ReservationStatus()


def test_the_template_is_kept_with_all_that_is_unknown_in_it():
    reservation = parse_reservation(manifest())
    assert reservation.spec.template["namespace"] == "default"
    assert to_document(reservation)["spec"]["template"] == manifest()["spec"]["template"]


def test_what_is_written_is_what_was_read():
    given = manifest(expires="2026-11-22T10:00:00Z", allocateOnce=False, taints=[{"key": "a", "effect": "NoSchedule"}])
    back = to_document(parse_reservation(given))
    assert back["spec"] == given["spec"] | {"ttl": "1h0m0s"}
    assert parse_reservation(back) == parse_reservation(given)


def test_a_time_of_another_zone_is_the_same_time():
    reservation = parse_reservation(manifest(expires="2026-11-22T11:00:00+01:00"))
    assert reservation.spec.expires == datetime(2026, 11, 22, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"owners": [{}]}, id="an-owner-that-says-nothing"),
        pytest.param(
            {"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]},
            id="a-selector-that-cannot-be-read",
        ),
        pytest.param({"owners": [{"controller": {"kind": "Job", "name": "a"}}]}, id="a-controller-without-uid"),
        pytest.param({"ttl": "1h", "expires": "2026-11-22T10:00:00Z"}, id="both-lifetimes"),
        pytest.param({"allocatePolicy": ""}, id="the-empty-policy"),
        pytest.param({"taints": None, "preAllocationPolicy": None}, id="nulls"),
    ],
)
def test_what_may_be_in_a_cluster_is_read(spec):
    parse_reservation(manifest(**spec))


def test_fields_of_newer_versions_in_a_status_are_passed_over():
    assert (
        parse_reservation(manifest() | {"status": {"phase": "Available", "newer": 1}}).status.phase
        is ReservationPhase.AVAILABLE
    )


@for_each_case(
    [
        pytest.param({"owners": None}, "spec.owners: required", id="no-owners"),
        pytest.param({"template": None}, "spec.template: required", id="no-template"),
        pytest.param({"owner": []}, "spec.owner: unknown field; did you mean owners?", id="typo"),
        pytest.param({"ttl": "1 day"}, "spec.ttl: '1 day' is not a duration, for example 24h", id="ttl"),
        pytest.param({"ttl": 5}, "spec.ttl: a number is not a duration", id="ttl-number"),
        pytest.param({"expires": "tomorrow"}, "spec.expires: 'tomorrow' is not a time, for example", id="expires"),
        pytest.param({"expires": "2026-11-22T10:00:00"}, "spec.expires: has no time zone;", id="expires-nowhere"),
        pytest.param({"allocateOnce": "yes"}, "spec.allocateOnce: input should be a valid boolean", id="no-boolean"),
        pytest.param({"allocatePolicy": "Strict"}, "spec.allocatePolicy: input should be", id="policy"),
        pytest.param(
            {"taints": [{"key": "a", "effect": "Never"}]}, "spec.taints[0].effect: input should be", id="taint"
        ),
        pytest.param({"taints": [{"effect": "NoExecute"}]}, "spec.taints[0].key: required", id="taint-without-key"),
        pytest.param(
            {"owners": [{"labelSelector": {"matchLabel": {}}}]},
            "spec.owners[0].labelSelector.matchLabel: unknown field; did you mean matchLabels?",
            id="typo-below",
        ),
        pytest.param({"preAllocationPolicy": {"mode": "All"}}, "spec.preAllocationPolicy.mode: input", id="mode"),
    ]
)
def test_a_malformed_one_is_refused_with_its_name_and_the_field(spec, complaint):
    with pytest.raises(MalformedReservationError) as refused:
        parse_reservation(manifest(**spec))
    assert str(refused.value).startswith(f"reservation demo: {complaint}")
