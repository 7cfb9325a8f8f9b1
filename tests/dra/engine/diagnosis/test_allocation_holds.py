"""What keeps an allocation is what the rules would need to lose."""

import pytest

from dra.engine.claims import claim_holders
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.claims.view import LostNode
from dra.engine.diagnosis.allocation_holds import find_holds, is_held
from dra.engine.diagnosis.cluster_state import AllocationHold
from tests.dra.engine import examples as ex
from tests.violations import combinations, for_each_case, named

KEPT_FOR = claim_holders.reserved_for_entry("r", ex.uid("r"))
HELD = (claim_holders.ClaimHolder(reference=KEPT_FOR),)

RESERVED = {"workload": ex.JOB, "entered": True}


@for_each_case(
    combinations(
        named([REPLACE, ALONGSIDE], ["replace", "alongside"]),
        [
            pytest.param(
                {**RESERVED, "list": [ex.JOB]},
                [],
                {"workload": ex.PRESENT},
                [AllocationHold.WORKLOAD],
                id="a-running-job",
            ),
            pytest.param(
                {**RESERVED, "list": [ex.JOB, "guard"]},
                [ex.started("a")],
                {"workload": ex.PRESENT},
                [AllocationHold.WORKLOAD, AllocationHold.CONSUMING],
                id="a-running-job-and-its-pod-each-would-do",
            ),
            pytest.param(
                {**RESERVED, "list": [ex.JOB, "guard"]},
                [ex.started("a")],
                {"workload": ex.FINISHED},
                [AllocationHold.CONSUMING],
                id="of-a-finished-job-its-pod-alone",
            ),
            pytest.param(
                {**RESERVED, "list": [ex.JOB]}, [], {"workload": ex.FINISHED}, [], id="a-finished-job-keeps-nothing"
            ),
            pytest.param(
                {**RESERVED, "list": [ex.JOB]}, [], {"workload": ex.GONE}, [], id="a-job-that-is-gone-keeps-nothing"
            ),
            pytest.param({"list": [ex.FOREIGN]}, [], {}, [AllocationHold.FOREIGN], id="an-entry-of-others"),
            pytest.param({"list": [KEPT_FOR]}, [], {"holds": HELD}, [AllocationHold.RESERVATION], id="a-reservation"),
            pytest.param(
                {"list": [KEPT_FOR, ex.started("a")]},
                [ex.started("a")],
                {"holds": HELD},
                [AllocationHold.CONSUMING, AllocationHold.RESERVATION],
                id="a-reservation-and-its-owner",
            ),
            pytest.param({"list": []}, [], {}, [AllocationHold.NOTHING], id="an-empty-list-is-no-edge"),
            pytest.param(
                {"list": [ex.started("a")]}, [], {}, [AllocationHold.UNKNOWN], id="a-pod-that-nobody-has-looked-up"
            ),
            pytest.param({"list": [ex.started("a")]}, [], {"gone": ["a"]}, [], id="a-pod-that-is-gone"),
            pytest.param(
                {"list": [ex.started("a")]}, [ex.started("a")], {}, [AllocationHold.CONSUMING], id="a-pod-that-runs"
            ),
            pytest.param(
                {"list": [ex.waiting("a")]},
                [ex.waiting("a")],
                {},
                [AllocationHold.WAITING],
                id="a-listed-pod-that-waits",
            ),
            pytest.param(
                {"list": ["guard"]},
                [],
                {"lost_nodes": (LostNode(name="n1"),)},
                [AllocationHold.LOST_NODE],
                id="a-lost-node",
            ),
            pytest.param({"allocation": None}, [ex.waiting("a")], {}, [], id="nothing-is-allocated"),
        ],
    )
)
def test_what_keeps_an_allocation(policy, claim, pods, known, kept):
    view = ex.view(ex.claim(**claim), *pods, **known)
    assert list(find_holds(view, policy=policy, soon=ex.NOON)) == kept
    assert is_held(view, policy=policy, soon=ex.NOON) is bool(kept)
