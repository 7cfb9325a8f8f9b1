"""The policy about owners of Reservations tells the same owners as `kubectl dra`: those that name no namespace."""

import pytest

from dra.api.reservations.model import ReservationOwner
from dra.engine.reservations.owner_matching import cross_namespace_owners
from tests.deploy.judging import judge, policy
from tests.violations import combinations, for_each_case, named

OWNERS = [
    pytest.param({"labelSelector": {"matchLabels": {"app": "web"}}}, True, id="labels"),
    pytest.param({"object": {"kind": "Pod", "name": "x"}}, True, id="a-name"),
    pytest.param({"object": {"name": "x", "namespace": ""}}, True, id="an-empty-namespace"),
    pytest.param({"controller": {"apiVersion": "batch/v1", "kind": "Job", "name": "x"}}, True, id="a-controller"),
    pytest.param({"controller": {"kind": "Job", "name": "x", "uid": "u"}}, True, id="a-forged-uid"),
    pytest.param({"object": {"uid": "u"}}, False, id="uid-of-a-pod-is-given-by-the-api-server"),
    pytest.param({"object": {"name": "x", "namespace": "ml"}}, False, id="a-name-in-a-namespace"),
    pytest.param(
        {"object": {"namespace": "ml"}, "labelSelector": {"matchLabels": {"app": "web"}}},
        False,
        id="labels-in-a-namespace",
    ),
    pytest.param({"controller": {"kind": "Job", "name": "x", "namespace": "ml"}}, False, id="a-namespaced-controller"),
]


def reservation(*owners):
    return {"metadata": {"name": "r"}, "spec": {"owners": list(owners)}}


@for_each_case(OWNERS)
def test_an_owner_without_a_namespace_is_told_by_policy_and_command_alike(owner, opened):
    """A tenant of another namespace took the name, and with it what was reserved."""
    assert cross_namespace_owners([ReservationOwner.model_validate(owner)]) == (["spec.owners[0]"] if opened else [])
    passed, said = judge(policy("reservations/owners.yaml"), {}, obj=reservation(owner))
    assert passed is not opened
    assert not opened or "can use reservation r" in said


def test_of_several_owners_each_has_to_name_a_namespace():
    bound, opened = {"object": {"namespace": "ml", "name": "x"}}, {"object": {"name": "x"}}
    passed, said = judge(policy("reservations/owners.yaml"), {}, obj=reservation(bound, opened))
    assert not passed
    assert said.startswith("spec.owners: 1 of 2 name no namespace")


def test_an_update_that_leaves_the_owners_as_they_are_passes():
    """Else a Reservation from before the policy could not lose its finalizer."""
    before = reservation({"object": {"name": "x"}})
    after = before | {"metadata": {"name": "r", "labels": {"a": "b"}}}
    assert judge(policy("reservations/owners.yaml"), {}, obj=after, old=before) == (True, "")


IN_ML, IN_ML_BY_CONTROLLER = (
    {"object": {"namespace": "ml", "name": "x"}},
    {"controller": {"namespace": "ml", "name": "x"}},
)
IN_WEB = {"object": {"namespace": "web", "name": "x"}}


@for_each_case(
    combinations(
        named([IN_ML, IN_ML_BY_CONTROLLER], ["object", "controller"]),
        [
            pytest.param("team", (), False, id="of-another-team"),
            pytest.param("team", ("create pods in ml",), True, id="of-ones-own"),
            pytest.param("team", ("create pods in *",), True, id="of-an-administrator"),
            pytest.param("ml", (), True, id="where-the-placeholder-is"),
        ],
    )
)
def test_owners_in_namespaces_of_others_are_told(owner, place, rights, passes):
    """The author of a Reservation chose nodes for the pods of another team."""
    made = reservation(owner)
    made["spec"]["template"] = {"metadata": {"namespace": place}}
    request = {"userInfo": {"username": "mallory"}}
    passed, said = judge(
        policy("reservations/owners.yaml", "foreign-owners.reserve.dra"), request, obj=made, rights=rights
    )
    assert passed is passes
    assert (
        passes or said == "spec.owners: reservation r attracts pods of namespace ml, where mallory may not create pods"
    )


def test_owners_in_several_namespaces_take_the_right_everywhere():
    spec = policy("reservations/owners.yaml", "foreign-owners.reserve.dra")
    made, request = reservation(IN_ML, IN_WEB), {"userInfo": {"username": "mallory"}}
    assert not judge(spec, request, obj=made, rights=["create pods in ml", "create pods in web"])[0]
    assert judge(spec, request, obj=made, rights=["create pods in *"]) == (True, "")


def test_an_owner_without_a_namespace_is_left_to_the_other_policy():
    spec = policy("reservations/owners.yaml", "foreign-owners.reserve.dra")
    assert judge(spec, {}, obj=reservation({"object": {"name": "x"}})) == (True, "")
