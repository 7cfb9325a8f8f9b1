import msgspec
import pytest

from dra.engine.diagnosis import claims, self_waits
from dra.engine.diagnosis.claim_focus import ClaimFocus
from dra.engine.diagnosis.cluster_state import ClusterState
from tests.dra.engine.diagnosis import test_claims
from tests.dra.engine.diagnosis.cluster_states import claim, cluster_state, entry, pod


def focused(snapshot, target):
    """Return the part of a snapshot that a focus on a claim keeps; None if it does not suffice."""
    focus = ClaimFocus.of(target)
    if focus is None:
        return None
    kept = [other for other in snapshot.claims if focus.needs_claim(other)]
    assert all(focus.may_need_claim(msgspec.json.encode(other)) for other in kept)
    pods = [
        pod
        for pod in snapshot.pods
        if pod.metadata.namespace == target.metadata.namespace and focus.may_need_pod(msgspec.json.encode(pod))
    ]
    if not focus.suffices(claims=kept, pods=pods):
        return None
    return msgspec.structs.replace(snapshot, claims=tuple(kept), pods=tuple(pods))


def explain(snapshot, key):
    cluster = ClusterState(snapshot)
    diagnosis = claims.explain(cluster, key)
    return diagnosis and self_waits.with_self_wait(cluster, diagnosis)


def known_states():
    """Return the cluster states of the tables about problems of claims."""
    tests = [test for name, test in vars(test_claims).items() if name.startswith("test_")]
    cases = [case for test in tests for case in getattr(test, "cases", ())]
    values = [value for case in cases for value in getattr(case, "values", ())]
    return [value.snapshot for value in values if isinstance(value, ClusterState)]


NOISE = (
    pod("other-1", "other", on="n9", phase="Running", started=True),
    pod("other-2", "other", on="n9", phase="Running", started=True),
)


def with_noise(snapshot):
    others = cluster_state(claim("other", "n9/gpu-7", listed=(entry("other-1"),)), pods=NOISE).snapshot
    return msgspec.structs.replace(
        snapshot, claims=(*snapshot.claims, *others.claims), pods=(*snapshot.pods, *others.pods)
    )


def test_a_claim_in_focus_is_explained_as_in_the_whole_cluster():
    focuses = 0
    for snapshot in map(with_noise, known_states()):
        for target in snapshot.claims:
            part = focused(snapshot, target)
            if part is not None:
                focuses += 1
                assert explain(part, target.metadata.key) == explain(snapshot, target.metadata.key)
    assert focuses >= 10


RUNNING = pod("a", "c", on="n1", phase="Running", started=True)


@pytest.mark.parametrize(
    ("others", "pods", "suffices"),
    [
        pytest.param((), (RUNNING,), True, id="in-use"),
        pytest.param((), (), False, id="not-in-use"),
        pytest.param((), (RUNNING, pod("b", "c")), False, id="a-pod-waits"),
        pytest.param((claim("d", "n1/gpu-1"),), (pod("a", "c", "d", on="n1"),), False, id="its-pod-has-two-claims"),
        pytest.param((claim("d", "n1/gpu-0"),), (RUNNING,), False, id="another-claim-has-the-device"),
        pytest.param((), (pod("a", "c", on="n1", phase="Succeeded"),), False, id="its-pods-have-ended"),
    ],
)
def test_when_a_focus_suffices(others, pods, suffices):
    snapshot = cluster_state(claim("c", "n1/gpu-0"), *others, pods=pods).snapshot
    assert (focused(snapshot, snapshot.claims[0]) is not None) is suffices


@pytest.mark.parametrize(
    ("name", "suffices"), [("a", True), ("b", False), ("gone", False)], ids=["used-by", "elsewhere", "vanished"]
)
def test_listed_pods_that_are_not_in_the_namespace_are_looked_for_everywhere(name, suffices):
    elsewhere = pod("b", "c", on="n1", phase="Running", started=True, metadata={"namespace": "web"})
    target = claim("c", "n1/gpu-0", listed=(entry("a"), entry(name)))
    snapshot = cluster_state(target, pods=(RUNNING, elsewhere)).snapshot
    assert (focused(snapshot, snapshot.claims[0]) is not None) is suffices


@pytest.mark.parametrize("metadata", [{}, {"deletionTimestamp": "2026-11-20T11:59:00Z"}], ids=["unallocated", "going"])
def test_no_focus_on_a_claim_that_waits_or_goes(metadata):
    devices = ("n1/gpu-0",) if metadata else ()
    snapshot = cluster_state(claim("c", *devices, **metadata), pods=(RUNNING,)).snapshot
    assert ClaimFocus.of(snapshot.claims[0]) is None
