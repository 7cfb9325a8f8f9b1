import msgspec
import pytest

from dra.api.reservations.model import ReservationOwner
from dra.api.reservations.validation import validate_owners
from dra.engine.reservations.owner_matching import matches_any_owner
from dra.model.meta import OwnerReference, Uid
from tests.dra.engine.reservations.examples import pod
from tests.violations import for_each_case

JOB = OwnerReference(api_version="batch/v1", kind="Job", name="train", uid=Uid("u-train"), controller=True)
POD = pod("p", app="web", owner_references=(JOB,))


def owners(*given):
    return tuple(ReservationOwner.model_validate(each) for each in given)


def labels(**wanted):
    return {"labelSelector": {"matchLabels": wanted}}


def expression(operator, *values, key="app"):
    return {"labelSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}}


@for_each_case(
    [
        # TestMatchReservationOwners
        pytest.param([labels(app="web")], True, id="labels"),
        pytest.param([labels(app="db")], False, id="other-labels"),
        pytest.param([{"object": {"name": "p"}}], True, id="object-by-name"),
        pytest.param(
            [{"controller": {"uid": "u-train", "kind": "Job", "namespace": "default"}}],
            True,
            id="controller-by-uid-kind",
        ),
        pytest.param([labels(app="db"), {"object": {"name": "p"}}], True, id="one-of-two"),
        # the rest of A.2
        pytest.param([], False, id="nobody"),
        pytest.param([{}], True, id="an-owner-that-says-nothing-is-everybody"),
        pytest.param([labels(app="web") | {"object": {"name": "q"}}], False, id="all-of-one-must-match"),
        pytest.param([{"object": {"uid": "uid-p", "namespace": "default"}}], True, id="object-by-uid"),
        pytest.param([{"object": {"name": "p", "uid": "another"}}], False, id="a-namesake"),
        pytest.param([{"object": {"name": "p", "namespace": "other"}}], False, id="of-another-namespace"),
        pytest.param([{"object": {"name": "p", "apiVersion": "v2"}}], False, id="of-another-version"),
        pytest.param(
            [{"object": {"name": "p", "kind": "Job", "resourceVersion": "7", "fieldPath": "x"}}],
            True,
            id="never-compared",
        ),
        pytest.param([{"controller": {"kind": "Job", "name": "train"}}], True, id="controller-without-uid"),
        pytest.param([{"controller": {"kind": "Job", "name": "train", "uid": "u-2"}}], False, id="controller-namesake"),
        pytest.param([{"controller": {"kind": "ReplicaSet", "name": "train"}}], False, id="controller-of-another-kind"),
        pytest.param([{"controller": {"name": "train", "namespace": "other"}}], False, id="controller-elsewhere"),
        pytest.param([{"controller": {"name": "train", "apiVersion": "batch/v2"}}], False, id="controller-version"),
        pytest.param([{"controller": {"name": "train", "controller": False}}], False, id="owner-but-no-controller"),
        pytest.param(
            [{"controller": {"name": "train", "blockOwnerDeletion": True}}], True, id="blocking-is-not-compared"
        ),
        pytest.param([expression("In", "web", "db")], True, id="in"),
        pytest.param([expression("In", "db")], False, id="not-in-these"),
        pytest.param([expression("NotIn", "db")], True, id="notin"),
        pytest.param([expression("NotIn", "x", key="absent")], True, id="notin-of-an-absent-label"),
        pytest.param([expression("Exists")], True, id="exists"),
        pytest.param([expression("Exists", key="absent")], False, id="does-not"),
        pytest.param([expression("DoesNotExist", key="absent")], True, id="doesnotexist"),
        pytest.param([expression("DoesNotExist")], False, id="but-it-does"),
    ],
)
def test_whose_a_reservation_is(given, expected):
    assert matches_any_owner(owners(*given), POD) is expected


def test_labels_match_in_every_namespace():
    assert matches_any_owner(owners(labels(app="web")), pod("p", app="web", key=("elsewhere", "p")))


@for_each_case(
    [
        pytest.param(expression("Is", "x"), "matchExpressions[0].operator: 'Is' is none of In,", id="operator"),
        pytest.param(expression("In"), "matchExpressions[0].values: In and NotIn need values", id="in-nothing"),
        pytest.param(expression("Exists", "x"), "matchExpressions[0].values: Exists and DoesNotExist", id="exists"),
        pytest.param(expression("In", "not a value"), "matchExpressions[0].values: 'not a value'", id="value"),
        pytest.param(expression("Exists", key="a b"), "matchExpressions[0].key: 'a b' is not a valid", id="key"),
        pytest.param(labels(app="x" * 64), "matchLabels[app]: ", id="too-long"),
        pytest.param({"labelSelector": {"matchLabels": {"-a": "b"}}}, "matchLabels: '-a' is not a valid", id="label"),
    ]
)
def test_a_selector_that_cannot_be_read_is_named(given, fault):
    (found,) = validate_owners(owners({"object": {"name": "p"}}, given))
    assert found.startswith(f"spec.owners[1].labelSelector.{fault}")


@pytest.mark.parametrize(
    ("flag", "wanted", "expected"),
    [
        pytest.param(None, False, False, id="not-given"),
        pytest.param(None, True, False, id="not-given-and-a-controller-is-wanted"),
        pytest.param(False, False, True, id="given"),
        pytest.param(None, None, True, id="not-compared"),
    ],
)
def test_a_reference_that_says_nothing_is_not_one_that_says_no_controller(flag, wanted, expected):
    given = {"kind": "Job", "name": "train"} | ({} if flag is None else {"controller": flag})
    reference = msgspec.convert(given, OwnerReference)
    controller = {"name": "train"} | ({} if wanted is None else {"controller": wanted})
    assert matches_any_owner(owners({"controller": controller}), pod("p", owner_references=(reference,))) is expected
