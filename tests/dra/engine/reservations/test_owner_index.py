import pytest

from dra.api.reservations.model import ReservationOwner
from dra.engine.reservations.owner_matching import OwnerIndex
from tests.dra.engine.reservations.examples import pod, reservation_info


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param({"object": {"name": "mine"}}, id="a-name"),
        pytest.param({"object": {"uid": "uid-mine"}}, id="a-uid"),
        pytest.param(
            {"object": {"name": "mine"}, "labelSelector": {"matchLabels": {"app": "a"}}}, id="a-name-and-labels"
        ),
        pytest.param({"labelSelector": {"matchLabels": {"pod": "mine"}}}, id="labels"),
    ],
)
def test_a_pod_is_offered_what_may_be_its_and_little_else(owner):
    found = OwnerIndex()
    wanted = reservation_info(owners=(ReservationOwner.model_validate(owner),))
    found.update(wanted)
    mine, other = pod("mine", labels={"app": "a", "pod": "mine"}), pod("other", labels={"app": "a", "pod": "other"})
    assert (list(found.candidates(mine)), list(found.candidates(other))) == ([wanted.uid], [])
