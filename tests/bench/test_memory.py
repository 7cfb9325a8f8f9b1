"""The bench of memory beside kube-controller-manager: what it stores, when a process is synced, and its table."""

import json
from types import SimpleNamespace

import pytest

from bench import memory, memory_objects
from bench.memory import Row, Turn


def test_each_claim_lists_the_pods_that_use_it_on_its_node():
    stored = dict(memory_objects.objects(["job-uid"], pods=20, nodes=3))
    pods = [json.loads(text) for key, text in stored.items() if key.startswith("pods/")]
    users = {}
    for pod in pods:
        (used,) = pod["spec"]["resourceClaims"]
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        users.setdefault((used["resourceClaimName"], pod["spec"]["nodeName"]), []).append(consumer)
    claims = [json.loads(text) for key, text in stored.items() if key.startswith("resourceclaims/")]
    assert users == {
        (claim["metadata"]["name"], claim["status"]["allocation"]["devices"]["results"][0]["pool"]): claim["status"][
            "reservedFor"
        ]
        for claim in claims
    }


def test_pods_are_as_large_as_a_kubelet_leaves_them():
    stored = dict(memory_objects.objects(["7c1e1d5e-0000-4000-8000-000000000000"], pods=10, nodes=1))
    sizes = [len(text) for key, text in stored.items() if key.startswith("pods/")]
    assert all(3_700 < size < 4_100 for size in sizes)


@pytest.mark.parametrize(
    ("waiting", "handled", "synced"),
    [(0, 10, True), (1, 10, False), (0, 9, False)],
    ids=["each-claim-handled", "a-claim-waits", "a-claim-is-missing"],
)
def test_kube_controller_manager_is_synced_when_each_claim_was_handled(waiting, handled, synced):
    seen = {
        'workqueue_depth{name="resource_claim"}': float(waiting),
        'workqueue_work_duration_seconds_count{name="resource_claim"}': float(handled),
    }
    assert memory.manager_is_synced(seen, 10) is synced


@pytest.mark.parametrize(("leading", "decisions", "synced"), [(1, 10, True), (0, 10, False), (1, 9, False)])
def test_the_controller_is_synced_when_it_leads_and_has_decided_on_each_claim(leading, decisions, synced):
    seen = {"dra_reserve_leading": float(leading), "dra_reserve_decision_seconds_count": float(decisions)}
    assert memory.controller_is_synced(seen, 10) is synced


def row(name, *, idle, synced):
    turns = [Turn(seconds, 4.0, synced, synced, synced + 10) for seconds in (8.0, 9.0, 30.0)]
    return Row(SimpleNamespace(name=name), Turn(1.0, 1.0, idle, idle, idle), turns)


def test_the_table_has_medians_and_the_peers_figures_as_multiples():
    lines = memory.table([row("stock", idle=60.0, synced=900.0), row("ours", idle=60.0, synced=300.0)], rest=30)
    assert "| ours | 60 | 300 | 300 | 310 | 9.0 | 4.0 |" in lines.splitlines()
    assert "| **stock : ours** | 1.0× | 3.0× | 3.0× | 2.9× | 1.0× | 1.0× |" in lines.splitlines()


def test_a_limit_that_is_not_kept_is_named():
    assert memory.misses(row("ours", idle=63.0, synced=399.0)) == []
    assert memory.misses(row("ours", idle=65.0, synced=399.0)) == ["idle: 65 MiB, more than 64"]
