"""``kubectl dra tree``: who has what, as text and as data."""

import json

import msgspec
import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from dra.model.meta import ObjectMeta, UnstructuredObject
from tests.dra.engine.diagnosis.cluster_states import claim, pod, snapshot
from tests.dra.engine.diagnosis.test_workloads import RESERVED

KEEPS = {"apiGroup": "scheduling.koordinator.sh", "resource": "reservations", "name": "r", "uid": "uid-r"}
RESERVATION = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "Reservation",
    "metadata": {"name": "r", "uid": "uid-r"},
    "spec": {"template": {"spec": {"containers": []}}, "owners": [{"object": {"namespace": "ml", "name": "a"}}]},
    "status": {
        "phase": "Available",
        "nodeName": "n2",
        "currentOwners": [{"namespace": "ml", "name": "a", "uid": "uid-a"}],
    },
}


@pytest.fixture
def tree(tmp_path):
    def run(arguments=""):
        pods = tuple(pod(f"p{number}", "used", on="n1", phase="Running", started=True) for number in range(7))
        found = snapshot(
            claim("used", "n1/gpu-0", "n1/gpu-1", **RESERVED), claim("kept", "n2/gpu-0", listed=(KEEPS,)), pods=pods
        )
        reservation = UnstructuredObject(metadata=ObjectMeta(name="r", uid="uid-r"), content=RESERVATION)
        write_bundle(msgspec.structs.replace(found, reservations=(reservation,)), tmp_path / "b.tgz")
        return CliRunner().invoke(main, ["tree", *arguments.split(), "--from", str(tmp_path / "b.tgz")])

    return run


def test_workloads_have_claims_devices_and_some_pods(tree):
    shown = tree().output
    assert "ml: jobs.batch/train\n└─ claim used: has 2 devices, used by 7 pods\n" in shown
    assert "   ├─ device gpu.example.com/n1/gpu-1\n   ├─ pod p0\n" in shown
    assert shown.count("pod p") == 5
    assert "   └─ … 2 more pods\n" in shown


def test_a_claim_without_a_workload_is_that_of_its_reservation(tree):
    assert "ml: reservation/r\n└─ claim kept: " in tree().output


def test_wide_names_all_pods(tree):
    shown = tree("-o wide").output
    assert (shown.count("pod p"), "more pods" in shown) == (7, False)


def test_nodes_have_held_devices_with_their_claims(tree):
    assert tree("nodes").output.startswith(
        "node n1: Ready, 2 devices, 2 held\n"
        "├─ device gpu.example.com/n1/gpu-0\n"
        "│  └─ claim ml/used: has 2 devices, used by 7 pods\n"
        "│     ├─ pod p0\n"
    )


def test_reservations_have_the_claims_that_they_keep_and_their_owners(tree):
    assert tree("reservations").output == (
        "reservation r: Available on node n2\n"
        "├─ claim ml/kept: has 1 device, used by 0 pods\n"
        "│  └─ device gpu.example.com/n2/gpu-0\n"
        "└─ pod ml/a\n"
    )


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        pytest.param("", lambda item: item["claims"][0]["devices"][0]["name"], id="workloads"),
        pytest.param("nodes", lambda item: item["devices"][0]["name"], id="nodes"),
        pytest.param("reservations", lambda item: item["claims"][0]["devices"][0]["name"], id="reservations"),
    ],
)
def test_as_data(tree, kind, found):
    items = json.loads(tree(f"{kind} -o json").output)["items"]
    assert found(items[0]) in {"gpu.example.com/n1/gpu-0", "gpu.example.com/n2/gpu-0"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param("nodes -l a=b", "does not work with tree nodes", id="labels-of-claims"),
        pytest.param("devices", "'devices' is none of workloads, nodes, reservations", id="another-kind"),
        pytest.param("-o csv", "'csv' is not a valid format; use table, json, yaml, jsonpath=TEMPLATE, wide", id="csv"),
    ],
)
def test_what_does_not_work_is_refused(tree, arguments, said):
    shown = tree(arguments)
    assert shown.exit_code == 2
    assert said in " ".join(shown.stderr.split()) or "a bundle has no labels" in shown.stderr


@pytest.mark.parametrize("kind", ["workloads", "nodes", "reservations"])
def test_as_data_a_tree_is_a_list_as_kubectl_prints_lists(tree, kind):
    content = json.loads(tree(f"{kind} -o json").stdout)
    assert (content["apiVersion"], content["kind"], content["metadata"]) == ("v1", "List", {"resourceVersion": ""})
    assert content["items"]


def test_a_kind_without_a_tree_is_refused_with_those_that_have_one(tree):
    refused = tree("claims")
    assert (refused.exit_code, "'claims' is none of workloads, nodes, reservations" in refused.stderr) == (2, True)


def test_one_more_pod_is_singular(tmp_path):
    pods = tuple(pod(f"p{number}", "used", on="n1", phase="Running", started=True) for number in range(6))
    write_bundle(snapshot(claim("used", "n1/gpu-0", **RESERVED), pods=pods), tmp_path / "b.tgz")
    shown = CliRunner().invoke(main, ["tree", "--from", str(tmp_path / "b.tgz")])
    assert "   └─ … 1 more pod\n" in shown.output
