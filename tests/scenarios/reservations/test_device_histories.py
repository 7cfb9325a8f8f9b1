"""The judge of device histories finds each broken rule in a history that is right but for one state."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.scenarios.api import Json
from tests.scenarios.reservations.device_histories import Move, State, assert_never_without

HOLDERS: Final = {"reservation", "placeholder"}


def pod(uid: str, **metadata: str) -> Json:
    return {"metadata": {"uid": uid, **metadata}, "status": {"phase": "Running"}}


def claim(uid: str, *listed: str, device: str = "", node: str = "") -> Json:
    """Return a claim with these uids in the list, allocated if a device is given."""
    results = [{"driver": "cpu", "pool": node, "device": device}]
    status: dict[str, Any] = {"reservedFor": [{"uid": each} for each in listed]}
    if device:
        status["allocation"] = {"devices": {"results": results}}
    return {"metadata": {"uid": uid}, "status": status}


USED: Final = claim("before", "old", device="1", node="here")
PLACED: Final = claim("after", "placeholder", device="0", node="there")
HELD: Final = claim("after", "reservation", device="0", node="there")
GIVEN: Final = claim("after", "new", device="0", node="there")
LEAVING: Final = pod("old", deletionTimestamp="now")
MOVE: Final = Move(
    old=pod("old"), before={"cpu": USED}, new=pod("new"), after={"cpu": GIVEN}, reservation="reservation"
)


def history(**broken: State) -> list[State]:
    """Return the states of a migration, with other objects in the states that are named."""
    right: dict[str, list[Json]] = {
        "before": [pod("old"), USED],
        "placed": [pod("old"), USED, PLACED],
        "held": [pod("old"), USED, HELD],
        "leaving": [LEAVING, USED, HELD],
        "gone": [HELD],
        "created": [pod("new"), HELD],
        "given": [pod("new"), GIVEN],
    }
    return [{each["metadata"]["uid"]: each for each in found} | broken.get(name, {}) for name, found in right.items()]


def test_a_migration_whose_claim_is_always_used_or_held_passes() -> None:
    assert_never_without(history(), MOVE, holders=HOLDERS)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        pytest.param(
            {"held": {"before": claim("before", device="1", node="here")}},
            "taken from a running pod",
            id="the-claim-of-a-running-pod-loses-its-entry",
        ),
        pytest.param({"leaving": {"after": PLACED}}, "is not held when", id="the-placeholder-alone-holds"),
        pytest.param(
            {"leaving": {"after": claim("after", "reservation", "new", device="0", node="there")}},
            "is held and used when",
            id="a-pod-uses-what-is-held",
        ),
        pytest.param(
            {"gone": {"after": claim("after", device="0", node="there")}},
            "neither used nor held",
            id="allocated-but-kept-by-nobody",
        ),
        pytest.param(
            {"gone": {"after": claim("after", "stranger", device="0", node="there")}},
            "neither used nor held",
            id="a-stranger-uses-what-was-held",
        ),
        pytest.param(
            {"gone": {"after": claim("after", "reservation")}}, "other devices than held", id="deallocated-for-a-moment"
        ),
        pytest.param(
            {"created": {"after": claim("after", "reservation", device="1", node="there")}},
            "other devices than held",
            id="another-device-for-a-moment",
        ),
        pytest.param(
            {"gone": {"other": claim("other", "stranger", device="0", node="there")}},
            "a device of two claims",
            id="the-held-device-given-out-a-second-time",
        ),
    ],
)
def test_one_state_that_is_wrong_is_found(broken: dict[str, State], found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        assert_never_without(history(**broken), MOVE, holders=HOLDERS)
