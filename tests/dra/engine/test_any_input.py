"""Whatever tenants write on claims and pods: a decision comes of it, it can be written, told and printed, and no
running pod loses a device by it.

From JSON as an API server may store it: annotations, entries, names of classes and requests, gates and references are
arbitrary text.
"""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims import patches
from dra.engine.claims.actions import Deallocate, PatchMetadata, SetReservedFor
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.kube.event_correlator import truncated_note
from dra.model.claims import ResourceClaim
from dra.model.pods import POD_READY_TO_START_CONTAINERS, POD_SCHEDULED, Pod
from tests.dra.engine.examples import KEY, NOON

OURS = (
    "reserved-for",
    "reserved-for-uid",
    "resolved-uid",
    "resolved-for",
    "reserved-for-any-pod",
    "entered-allocation",
    "pre-list",
    "force-release",
    "gate",
    "",
)
UID = "uid-of-the-claim"
RUNNING = "uid-of-the-pod"

REFERENCES = st.sampled_from(
    ["jobs.batch/train", "pods/worker", "podgroups.scheduling.k8s.io/g", "nodes/n", "jobs/train"]
)
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["", "true", UID, RUNNING, "x" * 70_000, "\u2028\u202e\x00{}", "{namespace}", "%s"]),
    REFERENCES,
)
KEYS = st.sampled_from([f"reserve.dra/{name}" for name in OURS]) | TEXTS
GROUPS = st.sampled_from(["", "reserve.dra", "batch", "scheduling.k8s.io"]) | TEXTS
RESOURCES = st.sampled_from(["pods", "guards", "finishedpods", "lostnodes", "podgroups", "jobs"]) | TEXTS
ENTRIES = st.fixed_dictionaries({"resource": RESOURCES, "name": TEXTS, "uid": TEXTS}, optional={"apiGroup": GROUPS})
META = {"namespace": KEY[0], "resourceVersion": "1", "creationTimestamp": "2026-11-21T12:00:00Z"}


@st.composite
def claims(draw):
    """A claim that is allocated, or not, with anything in it that its creator or a writer of lists may choose."""
    allocation = {"devices": {"results": [{"request": draw(TEXTS), "driver": draw(TEXTS), "pool": "p", "device": "d"}]}}
    status = {
        "allocation": allocation,
        "reservedFor": draw(st.lists(ENTRIES, max_size=6, unique_by=lambda e: e["uid"])),
    }
    finalizers = draw(st.lists(TEXTS, max_size=2))
    owners = draw(
        st.lists(st.fixed_dictionaries({"apiVersion": TEXTS, "kind": TEXTS, "name": TEXTS, "uid": TEXTS}), max_size=1)
    )
    meta = META | {"name": KEY[1], "uid": UID, "annotations": draw(st.dictionaries(KEYS, TEXTS, max_size=6))}
    requests = [{"name": draw(TEXTS), "exactly": {"deviceClassName": draw(TEXTS)}}]
    return {
        "metadata": meta | {"finalizers": finalizers, "ownerReferences": owners},
        "spec": {"devices": {"requests": requests}},
        "status": status if draw(st.booleans()) else {},
    }


@st.composite
def pods(draw, number):
    """A pod that names the claim, in any state and with any text."""
    started = draw(st.sampled_from(["True", "False"]))
    bound = draw(st.booleans())
    conditions = [
        {"type": POD_READY_TO_START_CONTAINERS, "status": started},
        {"type": POD_SCHEDULED, "status": "True" if bound else "False"},
    ]
    spec = {
        "resourceClaims": [{"name": draw(TEXTS), "resourceClaimName": KEY[1]}],
        "schedulingGates": [
            {"name": gate} for gate in draw(st.lists(TEXTS | st.just("reserve.dra/claim"), max_size=2))
        ],
        "priority": draw(st.integers(-(2**31), 2**31 - 1)),
    }
    return {
        "metadata": META
        | {"name": f"p{number}", "uid": f"uid-{number}", "annotations": draw(st.dictionaries(KEYS, TEXTS, max_size=3))},
        "spec": spec | ({"nodeName": draw(TEXTS.filter(bool))} if bound else {}),
        "status": {
            "phase": draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])),
            "conditions": conditions,
        },
    }


def decode(content, model):
    """As it comes from an API server, which stores no lone surrogates."""
    return msgspec.json.decode(json.dumps(content).encode(), type=model)


CONSUMER = {
    "metadata": META | {"name": "worker", "uid": RUNNING},
    "spec": {"nodeName": "n1", "resourceClaims": [{"name": "d", "resourceClaimName": KEY[1]}]},
    "status": {"phase": "Running", "conditions": [{"type": POD_READY_TO_START_CONTAINERS, "status": "True"}]},
}

POLICIES = st.sampled_from([REPLACE, ALONGSIDE])


@given(claim=claims(), members=st.tuples(pods(0), pods(1)), policy=POLICIES, later=st.floats(0, 10_000))
def test_a_decision_comes_of_anything_and_can_be_written_and_told(claim, members, policy, later):
    world = ClaimCache()
    world.observe_claim(decode(claim, ResourceClaim), now=NOON)
    for pod in members:
        world.observe_pod(decode(pod, Pod), now=NOON)
    for now in (NOON, NOON + later):
        plan = decide(world.view(KEY, now=now), policy=policy, now=now)
        for action in plan.actions:
            if isinstance(action, SetReservedFor | Deallocate | PatchMetadata):
                json.dumps(patches.merge_patch_of(action)).encode()
            if isinstance(action, SetReservedFor):
                uids = [entry.uid for entry in action.entries]
                assert len(uids) == len(set(uids)) <= 256
                assert all(
                    entry.uid and entry.name and entry.resource
                    for entry in action.entries
                    if entry.uid not in known(claim)
                )
        for reason in plan.reasons:
            assert reason.text.isprintable()
            assert len(reason.text) < 4_000
            assert len(truncated_note(reason.note).encode()) <= 1024


@given(claim=claims(), member=pods(0), policy=POLICIES, later=st.floats(0, 10_000))
def test_no_text_makes_a_running_pod_lose_its_device(claim, member, policy, later):
    world = ClaimCache()
    world.observe_claim(decode(claim, ResourceClaim), now=NOON)
    for pod in (CONSUMER, member):
        world.observe_pod(decode(pod, Pod), now=NOON)
    for now in (NOON, NOON + later):
        plan = decide(world.view(KEY, now=now), policy=policy, now=now)
        assert not [
            action for action in plan.actions if isinstance(action, Deallocate) and RUNNING not in action.given_up
        ]


def known(claim):
    """The uids that are listed already."""
    return {entry["uid"] for entry in claim["status"].get("reservedFor", [])}
