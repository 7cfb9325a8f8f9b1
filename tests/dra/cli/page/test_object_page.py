"""The page of one object: a workload, the Reservations of a node, who held a device before."""

import pytest

from dra.cli.page import object_page
from dra.cli.page.page_tables import PageTables
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.model.workload_reservations import NO_UID
from tests.dra.cli.page.test_page_tables import NOW, Cluster, reservation
from tests.dra.engine.diagnosis.cluster_states import JOB, claim, entry, pod, snapshot, workload

FOR_TRAIN = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train"}}


@pytest.fixture
def cluster():
    changing = Cluster()
    for change in (("nodes", "n1", 0), ("slices", "n1", 0), ("claims", "x", 1), ("pods", "a", 3)):
        changing.change(*change)
    changing.update()
    return changing


def described(tables, kind, name, namespace=""):
    return object_page.describe(tables, kind=kind, namespace=namespace, name=name, now=NOW)


def workload_tables(*pods, phase=WorkloadPhase.PRESENT, uid="uid-job"):
    held = claim("x", "n1/gpu-0", listed=(JOB, entry("a")), **FOR_TRAIN)
    taken = snapshot(held, pods=pods, workloads=() if phase is None else (workload(phase, uid=uid),))
    live = LiveCluster()
    for item in taken.nodes:
        live.observe_node(item)
    for item in taken.claims:
        live.observe_claim(item)
    for item in taken.pods:
        live.observe_pod(item)
    live.set_surroundings(taken)
    tables = PageTables(live)
    tables.update(now=NOW)
    while tables.has_work:
        tables.update(now=NOW)
    return tables


def owned(name, kind, uid):
    owner = {"apiVersion": "v1", "kind": kind, "name": "owner", "uid": uid, "controller": True}
    return pod(name, "x", on="n1", phase="Running", started=True, metadata={"ownerReferences": [owner]})


def test_a_workload_has_the_lines_of_explain_and_what_belongs_to_it():
    content = described(workload_tables(owned("a", "Job", "uid-job")), "workload", "jobs.batch/train", "ml")
    assert content["title"] == "job ml/train: exists, uses 1 claim"
    assert ("pods", "1 started, 0 starting, 0 waiting, 0 gated, 0 finished") in content["lines"]
    assert content["links"] == {
        "claims": ["ml/x"],
        "pods": ["ml/a"],
        "devices": ["gpu.example.com/n1/gpu-0"],
        "nodes": ["n1"],
    }


def test_pods_below_an_object_that_the_page_does_not_read_belong_to_the_workload():
    content = described(workload_tables(owned("a", "ReplicaSet", "uid-set")), "workload", "jobs.batch/train", "ml")
    assert ("pods", "1 started, 0 starting, 0 waiting, 0 gated, 0 finished") in content["lines"]


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (WorkloadPhase.ABSENT, "is gone"),
        (WorkloadPhase.FORBIDDEN, "state unknown (no permission to read it)"),
        (WorkloadPhase.NO_KIND, "state unknown (the API server does not serve this kind)"),
    ],
)
def test_a_workload_that_was_not_read_is_not_called_missing(phase, state):
    content = described(workload_tables(phase=phase, uid=NO_UID), "workload", "jobs.batch/train", "ml")
    assert content["title"] == f"workload ml/jobs.batch/train: {state}"
    assert content["links"]["claims"] == ["ml/x"]


def test_a_workload_that_was_not_looked_up_yet_has_its_claims():
    content = described(workload_tables(phase=None), "workload", "jobs.batch/train", "ml")
    assert content["lines"] == [("claims", "1; the workload is looked up within seconds")]
    assert content["links"] == {"claims": ["ml/x"]}


@pytest.mark.parametrize(
    ("namespace", "name"), [("other", "jobs.batch/train"), ("ml", "jobs.batch/x"), ("ml", "train")]
)
def test_a_workload_that_no_claim_names_does_not_exist(namespace, name):
    assert described(workload_tables(), "workload", name, namespace)["lines"] == []


def test_a_node_names_the_reservations_that_keep_room_on_it(cluster):
    cluster.change("reservations", "r", 0)
    cluster.change("reservations", "s", 1)
    cluster.update()
    assert reservation("r")["status"]["nodeName"] == "n1"
    assert described(cluster.tables, "node", "n1")["links"]["reservations"] == ["r"]
    assert described(cluster.tables, "node", "n2")["links"]["reservations"] == []


def test_a_device_names_who_held_it_before(cluster):
    device = "gpu.example.com/n1/gpu-0"
    assert "before" not in dict(described(cluster.tables, "device", device)["lines"])
    cluster.change("claims", "x", None)
    cluster.update()
    assert ("before", "claim ml/x, until 2026-11-20T12:00:00Z") in described(cluster.tables, "device", device)["lines"]


def test_only_an_existing_claim_has_events(cluster):
    assert described(cluster.tables, "claim", "x", "ml")["uid"]
    assert described(cluster.tables, "claim", "y", "ml")["uid"] == ""
    assert described(cluster.tables, "node", "n1")["uid"] == ""
