"""Which pods are evicted whose node refuses their claim."""

import msgspec
import pytest

from dra.api.migration.well_known import EVICTION_COST, MAX_EVICTION_COST
from dra.api.reservations.well_known import LABEL_PLACEHOLDER
from dra.engine.claims.codes import Code
from dra.engine.prepare_refusals.decide import (
    PATIENCE,
    RECHECK,
    EvictionObstacle,
    Refusal,
    RefusalPlan,
    decide,
    refused_pod,
)
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.model.claims import ResourceClaim
from tests.dra.engine.prepare_refusals.refused import REPLICA_SET, WAITING, claim_document, pod_document, ready, view
from tests.violations import for_each_case

CPUS_IN_USE = PrepareRefusalReason.CPUS_IN_USE
NOW = 31.0
LOOKED_AT_AGAIN = RefusalPlan(wake_at=NOW + RECHECK)


def plan(**parts):
    return decide(view(**parts), now=NOW)


def test_a_pod_that_is_replaced_and_has_not_started_is_evicted_in_the_version_that_was_read():
    decided = plan()
    (eviction,) = decided.actions
    assert (decided.reasons, decided.wake_at) == ((), NOW + RECHECK)
    assert (eviction.key, eviction.uid, eviction.resource_version) == (("ml", "p"), "uid-p", "7")
    assert (eviction.owner, eviction.node, eviction.cause) == (
        ("ml", "uid-web"),
        "n1",
        CPUS_IN_USE,
    )
    assert (eviction.reason.code, eviction.reason.done) == (Code.EVICTED_UNPREPARED, True)
    assert eviction.reason.text == (
        "pod ml/p: was evicted: node n1 had refused claim p-cpus for 31 s (CPUsInUse), and no container had started; "
        "ReplicaSet web creates a new pod"
    )


@for_each_case(
    [
        pytest.param({"pod": pod_document(owner=None)}, EvictionObstacle.NO_CONTROLLER, id="bare-pod"),
        pytest.param(
            {"pod": pod_document(owner={**REPLICA_SET, "controller": False})},
            EvictionObstacle.NO_CONTROLLER,
            id="owned-but-not-controlled",
        ),
        pytest.param(
            {"pod": pod_document(owner={**REPLICA_SET, "kind": "Node"})},
            EvictionObstacle.NO_CONTROLLER,
            id="static-pod",
        ),
        pytest.param(
            {"pod": pod_document(owner={**REPLICA_SET, "kind": "Reservation"})},
            EvictionObstacle.NO_CONTROLLER,
            id="pod-of-a-reservation",
        ),
        pytest.param({"claim": claim_document(generated=False)}, EvictionObstacle.SHARED_CLAIM, id="claim-by-hand"),
        pytest.param(
            {"claim": claim_document(entries=("p", "q"))}, EvictionObstacle.SHARED_CLAIM, id="held-for-others"
        ),
        pytest.param({"pod": pod_document(template="mine")}, EvictionObstacle.OTHER_FORM, id="own-template"),
        pytest.param({"enabled": False}, EvictionObstacle.NOT_ENABLED, id="namespace-not-enabled"),
        pytest.param(
            {"pod": pod_document(annotations={EVICTION_COST: str(MAX_EVICTION_COST)})},
            EvictionObstacle.FORBIDDEN,
            id="eviction-cost",
        ),
    ]
)
def test_other_pods_are_told_why_they_stay(parts, obstacle):
    found = plan(**parts)
    (reason,) = found.reasons
    assert (found.actions, found.wake_at) == ((), NOW + RECHECK)
    assert reason.code is Code.PREPARE_REFUSED
    assert reason.text.startswith("pod ml/p: cannot start on node n1, which refuses claim p-cpus (CPUsInUse)")
    assert f"It is not evicted, since {obstacle}. Delete the pod" in reason.text


RUNS = {"running": {"startedAt": "2026-11-20T12:00:00Z"}}
ENDED = {"terminated": {"exitCode": 0}}


@for_each_case(
    [
        pytest.param({"pod": pod_document(container={**WAITING, "state": RUNS})}, id="a-container-runs"),
        pytest.param({"pod": pod_document(container={**WAITING, "state": ENDED})}, id="a-container-has-ended"),
        pytest.param({"pod": pod_document(container={**WAITING, "lastState": ENDED})}, id="ran-before-a-reboot"),
        pytest.param({"pod": pod_document(container={**WAITING, "restartCount": 1})}, id="was-restarted"),
        pytest.param({"pod": pod_document(init={**WAITING, "state": ENDED})}, id="an-init-container-has-ended"),
        pytest.param({"pod": pod_document(deletionTimestamp="2026-11-20T12:00:00Z")}, id="is-being-deleted"),
        pytest.param({"pod": pod_document(labels={LABEL_PLACEHOLDER: "true"})}, id="placeholder"),
        pytest.param({"claim": claim_document(ready("True"))}, id="is-prepared"),
    ]
)
def test_nothing_is_done_about_a_pod_that_has_started_or_ends(parts):
    assert plan(**parts) == LOOKED_AT_AGAIN


@pytest.mark.parametrize(("change", "value"), [("nodeName", ""), ("phase", "Failed"), ("phase", "Succeeded")])
def test_nothing_is_done_about_a_pod_without_a_node_or_with_an_end(change, value):
    document = pod_document()
    document["spec" if change == "nodeName" else "status"][change] = value
    assert plan(pod=document) == LOOKED_AT_AGAIN


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"claim": None, "pod": None}, id="the-claim-is-gone"),
        pytest.param({"pod": None}, id="the-pod-is-gone"),
        pytest.param(
            {"refusal": Refusal(claim="uid-old", reason=CPUS_IN_USE, since=0.0)}, id="another-claim-has-the-name"
        ),
        pytest.param({"pod": view(pod=pod_document(uid="uid-new")).pod}, id="another-pod-has-the-name"),
    ],
)
def test_nothing_is_done_about_a_claim_or_a_pod_that_is_gone(change):
    assert decide(msgspec.structs.replace(view(), **change), now=NOW) == LOOKED_AT_AGAIN


def test_a_replacement_on_the_same_node_is_waited_for_longer():
    refused = view()
    refused.history.record(("ml", "uid-web"), "n1", now=0.0)
    assert decide(refused, now=NOW) == RefusalPlan(wake_at=2 * PATIENCE)
    assert len(decide(refused, now=2 * PATIENCE).actions) == 1


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        pytest.param(claim_document(), ("p", "uid-p"), id="generated-for-a-pod"),
        pytest.param(claim_document(generated=False), ("p", "uid-p"), id="used-by-one-pod"),
        pytest.param(claim_document(generated=False, entries=("p", "q")), None, id="used-by-several"),
        pytest.param(claim_document(generated=False, entries=()), None, id="used-by-none"),
    ],
)
def test_the_pod_of_a_claim(claim, found):
    assert refused_pod(msgspec.convert(claim, ResourceClaim)) == found
