"""The bench of decisions beside other loops, with a cluster of a few nodes."""

import json
import re

import pytest

from bench import beside
from bench.beside_cluster import METRICS, NODES, PODS, SyntheticCluster, paced, write_world
from dra.kube.transport import Request


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    write_world(folder, nodes=10, pods=40)
    return folder


@pytest.fixture
def cluster(world):
    return SyntheticCluster(world, on_claim_written=lambda _: None)


async def listed(cluster, path, *, limit=7):
    objects, token = [], "0"
    while token:
        query = {"limit": str(limit), "continue": token}
        page = json.loads((await cluster.send(Request(method="GET", path=path, query=query, timeout=1.0))).body)
        objects += page["items"]
        token = page["metadata"].get("continue", "")
    return [listed_object["metadata"]["name"] for listed_object in objects]


async def test_lists_are_whole_and_have_the_pods_of_claims_last(cluster):
    names = await listed(cluster, PODS)
    assert len(names) == len(set(names)) == 40 + 3 * len(cluster.claims)
    assert names[-1].startswith("train-")
    assert len(await listed(cluster, NODES)) == len(await listed(cluster, METRICS)) == 10


def test_each_report_of_a_node_is_newer_than_the_one_before_and_shows_other_use(cluster):
    first, second = (json.loads(cluster.report(3)) for _ in range(2))
    assert first["metadata"]["name"] == second["metadata"]["name"]
    assert int(first["metadata"]["resourceVersion"]) < int(second["metadata"]["resourceVersion"])
    assert first["status"]["nodeMetric"] != second["status"]["nodeMetric"]


async def test_what_is_late_is_due_at_once():
    assert len([due async for due in paced(1e6, seconds=1e-4)]) == 100


@pytest.mark.slow
def test_all_processes_work_and_each_new_pod_is_listed(world):
    results = beside.run(world, seconds=1.0)
    assert [len(result["delays"]) for result in results.values()] == [20, 20, 20]
    assert results[beside.ROUNDS]["bound"] > 40


def test_a_row_has_a_cell_for_each_column():
    result = {"delays": [0.05] * 9, "stretch_ms": 1, "gc_ms": 1, "waited_s": 1, "cpu_s": 1}
    lines = beside.table([beside.row("alone", [result], seconds=60.0)]).splitlines()
    assert len({len(re.findall(r"\|", line)) for line in lines}) == 1
