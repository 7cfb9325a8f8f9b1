import pytest

from dra.api.reservations import well_known
from dra.api.reservations.model import parse_reservation
from dra.engine.reservations import reservation_info
from dra.engine.reservations.reservation_info import HIGHEST_PRIORITY
from dra.model.quantities import PODS
from tests.dra.engine.reservations.examples import available, content, of, reservation

RESTRICTED = {"allocatePolicy": "Restricted"}


def options(text):
    return {well_known.ANNOTATION_RESTRICTED_OPTIONS: text}


def test_what_is_placed_holds_what_its_status_says():
    held = reservation_info.from_reservation(available())
    assert (held.node, held.available, held.allocatable) == ("n", True, of("500m", memory="800Mi", pods=1))


def test_what_is_not_placed_wants_what_its_template_asks_for():
    held = reservation_info.from_reservation(reservation())
    assert (held.node, held.available, held.allocatable) == ("", False, of("500m", memory="800Mi", pods=1))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_has_ended_holds_nothing(phase):
    assert not reservation_info.from_reservation(available(status={"phase": phase})).available


@pytest.mark.parametrize(
    ("annotations", "names"),
    [
        pytest.param({}, {"cpu", "memory"}, id="all"),
        pytest.param(options('{"resources": ["cpu"]}'), {"cpu"}, id="these"),
        pytest.param(options('{"resources": ["gpu"]}'), {"cpu", "memory"}, id="none-of-them-is-held"),
        pytest.param(options('{"resources": ["cpu", "gpu"]}'), {"cpu"}, id="those-that-are-held"),
        pytest.param(options("{}"), {"cpu", "memory"}, id="nothing-said"),
    ],
)
def test_of_which_resources_no_more_is_given_than_is_held(annotations, names):
    assert (
        reservation_info.from_reservation(available(annotations=annotations, **RESTRICTED)).restricted_resources
        == names
    )
    assert reservation_info.from_reservation(available(annotations=annotations)).restricted_resources == frozenset()


def test_pods_that_were_asked_for_are_always_counted():
    held = reservation_info.from_reservation(
        available(
            annotations=options('{"resources": ["cpu"]}'), status={"allocatable": {"cpu": 1, "pods": 2}}, **RESTRICTED
        )
    )
    assert (held.restricted_resources, held.allocatable[PODS]) == ({"cpu", "pods"}, of(pods=2)[PODS])


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        pytest.param(
            {"annotations": options("{"), **RESTRICTED},
            well_known.ANNOTATION_RESTRICTED_OPTIONS,
            id="restricted-options",
        ),
        pytest.param(
            {"annotations": {well_known.ANNOTATION_NODE_RESERVATION: "x"}},
            well_known.ANNOTATION_NODE_RESERVATION,
            id="kept-within",
        ),
        pytest.param(
            {"annotations": {well_known.ANNOTATION_NODE_RESERVATION: '{"a":1}'}},
            "a: unknown field",
            id="kept-within-typo",
        ),
        pytest.param(
            {"owners": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]},
            "spec.owners[0].labelSelector.matchExpressions[0].operator",
            id="selector",
        ),
        pytest.param(
            {"status": {"allocatable": {"cpu": "two"}}}, "status.allocatable: 'two' is not a quantity", id="status"
        ),
    ],
)
def test_what_cannot_be_read_is_a_fault_and_what_is_held_stays_held(fields, fault):
    held = reservation_info.from_reservation(available(**fields))
    assert fault in held.parse_error
    assert held.available
    assert held.allocatable["cpu"] == of("500m")["cpu"]


@pytest.mark.parametrize(
    ("annotation", "fault"),
    [
        pytest.param("{", "is not valid JSON", id="no-json"),
        pytest.param('{"cpu": 1}', "cpu: unknown field; known are resources", id="typo"),
        pytest.param('{"resources": {"cpu": "-1"}}', "resources.cpu: -1 is negative", id="negative"),
    ],
)
def test_a_resize_that_cannot_be_read_is_a_fault(annotation, fault):
    held = reservation_info.from_reservation(
        reservation(annotations={well_known.ANNOTATION_RESIZE_ALLOCATABLE: annotation})
    )
    assert held.parse_error.startswith(f"annotation {well_known.ANNOTATION_RESIZE_ALLOCATABLE}: {fault}")
    assert held.allocatable["cpu"] == of("500m")["cpu"]


@pytest.mark.parametrize(
    ("reference", "for_migration"),
    [
        pytest.param({}, True, id="the-job-of-its-name"),
        pytest.param({"uid": "other"}, False, id="another-job"),
        pytest.param({"kind": "Job"}, False, id="another-kind"),
        pytest.param({"apiVersion": "example.com/v1"}, False, id="another-group"),
        pytest.param({"controller": False}, False, id="not-its-controller"),
    ],
)
def test_the_controller_says_whether_a_reservation_is_for_a_migration(reference, for_migration):
    job = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "name": "m", "uid": "demo"}
    whole = content(labels={well_known.LABEL_RESERVATION_ORDER: "7"})
    whole["metadata"]["ownerReferences"] = [{**job, "controller": True, **reference}]
    found = reservation_info.from_reservation(parse_reservation(whole))
    assert (found.for_migration, found.rank) == (for_migration, (not for_migration, False, 7))


def test_labels_that_matter():
    held = reservation_info.from_reservation(
        available(labels={well_known.LABEL_RESERVATION_ORDER: "7", well_known.LABEL_PRIORITY: "9"})
    )
    assert (held.order, held.priority) == (7, 9)
    nonsense = reservation_info.from_reservation(
        available(labels={well_known.LABEL_RESERVATION_ORDER: "first", well_known.LABEL_PRIORITY: "1.5"})
    )
    assert (nonsense.order, nonsense.priority) == (0, HIGHEST_PRIORITY)
    urgent = reservation(template={"spec": {"priority": 3, "containers": []}}, labels={well_known.LABEL_PRIORITY: "9"})
    assert reservation_info.from_reservation(urgent).priority == 3
