"""The last look before an eviction: whether it still makes sense, by what live reads show."""

import msgspec
import pytest

from dra.api.migration.model import EvictionPolicy
from dra.api.migration.well_known import ANNOTATION_SOFT_EVICTION
from dra.api.reservations.model import parse_reservation
from dra.engine.migration.live_reads import LookedAtPod
from dra.engine.migration.refusals import is_requested_already
from dra.engine.migration.reservation_fit import holds_room
from dra.engine.migration.view import MigrationPod
from tests.violations import for_each_case

CONTAINERS = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]


def reservation(*, app="web", deleted=False, **status):
    return parse_reservation(
        {
            "metadata": {"name": "room", "uid": "r"}
            | ({"deletionTimestamp": "2026-11-24T12:00:00Z"} if deleted else {}),
            "spec": {
                "template": {"spec": {"containers": CONTAINERS}},
                "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            },
            "status": {"phase": "Available", "nodeName": "n2", **status},
        }
    )


def looked_at(**annotations):
    content = {
        "metadata": {
            "namespace": "ns",
            "name": "web-0",
            "uid": "p",
            "labels": {"app": "web"},
            "annotations": annotations,
        },
        "spec": {"nodeName": "n1", "containers": CONTAINERS},
    }
    return LookedAtPod(msgspec.convert(content, MigrationPod), content)


@for_each_case(
    [
        pytest.param(reservation(), True, id="free"),
        pytest.param(reservation(phase="Failed"), False, id="expired"),
        pytest.param(reservation(phase="Pending"), False, id="not-placed-yet"),
        pytest.param(reservation(currentOwners=[{"name": "other", "uid": "u"}]), False, id="used"),
        pytest.param(reservation(deleted=True), False, id="being-deleted"),
        pytest.param(reservation(nodeName="n1"), False, id="on-the-node-of-the-pod"),
        pytest.param(reservation(nodeName=""), False, id="without-a-node"),
        pytest.param(reservation(app="other"), False, id="for-other-pods"),
    ]
)
def test_a_pod_is_evicted_only_into_a_reservation_that_is_free_for_its_replacement(given, expected):
    assert holds_room(given, looked_at()) == expected


@pytest.mark.parametrize(
    ("policy", "annotations", "expected"),
    [
        pytest.param(EvictionPolicy.SOFT_EVICTION, {ANNOTATION_SOFT_EVICTION: "{}"}, True, id="requested"),
        pytest.param(EvictionPolicy.SOFT_EVICTION, {}, False, id="not-requested"),
        pytest.param(EvictionPolicy.EVICTION, {ANNOTATION_SOFT_EVICTION: "{}"}, False, id="another-policy"),
    ],
)
def test_a_soft_eviction_is_requested_once(policy, annotations, expected):
    assert is_requested_already(policy, looked_at(**annotations).pod) == expected
