"""Waiting claims that differ only in names are one group, and others are not."""

import pytest

from dra.engine.diagnosis import claims
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.waiting_claims import NAMED_CLAIMS_MAX, group_waiting
from tests.dra.engine.diagnosis.cluster_states import claim, pod, snapshot

FOR_TRAIN = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train"}}


def groups(*given, pods=(), **more):
    cluster = ClusterState(snapshot(*given, pods=pods, **more))
    diagnoses = [claims.explain(cluster, candidate.metadata.key) for candidate in cluster.snapshot.claims]
    return [(group.names, group.count, group.pods) for group in group_waiting(cluster, diagnoses)]


@pytest.mark.parametrize(
    ("given", "pods", "grouped"),
    [
        pytest.param(
            [claim("a"), claim("b")],
            (pod("p", "a"), pod("q", "b"), pod("r", "b")),
            [(("a", "b"), 2, 3)],
            id="equal-claims-are-one-group",
        ),
        pytest.param(
            [claim("a"), claim("b", count=2)],
            (pod("p", "a"), pod("q", "b"), pod("r", "b")),
            [(("b",), 1, 2), (("a",), 1, 1)],
            id="another-request-is-another-group-and-the-most-pods-come-first",
        ),
        pytest.param(
            [claim("a"), claim("b", **FOR_TRAIN)],
            (pod("p", "a"), pod("q", "b")),
            [(("a",), 1, 1), (("b",), 1, 1)],
            id="another-workload-is-another-group",
        ),
        pytest.param(
            [claim("a"), claim("b")],
            (pod("p", "a"), pod("q", "b", schedulingGates=[{"name": "reserve.dra/claim"}])),
            [(("a",), 1, 1), (("b",), 1, 1)],
            id="a-gated-pod-waits-for-something-else",
        ),
        pytest.param([claim("a"), claim("b")], (pod("p", "a"),), [(("a",), 1, 1)], id="who-does-not-wait-is-left-out"),
    ],
)
def test_groups(given, pods, grouped):
    assert groups(*given, pods=pods) == grouped


def test_the_named_claims_have_a_limit():
    names = [f"c{number:03}" for number in range(NAMED_CLAIMS_MAX + 5)]
    [(named, count, waiting)] = groups(
        *(claim(name) for name in names), pods=tuple(pod(f"p-{name}", name) for name in names)
    )
    assert (named, count, waiting) == (tuple(names[:NAMED_CLAIMS_MAX]), len(names), len(names))
