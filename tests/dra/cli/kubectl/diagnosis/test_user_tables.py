"""``kubectl dra get pods`` and ``get nodes``: which devices they have."""

import json

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from tests.dra.engine.diagnosis.cluster_states import claim, node, pod, snapshot

NODES = [
    node("n1", taints=({"key": "gpu", "value": "yes", "effect": "NoSchedule"},)),
    node("n2", ready=False, cordoned=True, keeps='{"resources": {"cpu": "2"}}'),
]


@pytest.fixture
def get(tmp_path):
    def run(arguments):
        pods = (
            pod("a", "c", on="n1", phase="Running", started=True),
            pod("b", "d", schedulingGates=[{"name": "reserve.dra/claim"}]),
            pod("unrelated"),
        )
        write_bundle(snapshot(claim("c", "n1/gpu-0"), claim("d"), pods=pods, nodes=NODES), tmp_path / "b.tgz")
        return CliRunner().invoke(main, ["get", *arguments.split(), "--from", str(tmp_path / "b.tgz")])

    return run


def table(shown):
    return [line.split() for line in shown.stdout.splitlines()]


def test_pods_that_name_claims_with_their_stage_and_devices(get):
    assert table(get("pods -o wide")) == [
        ["NAME", "STAGE", "CLAIMS", "DEVICES", "NODE", "GATES", "MESSAGE"],
        ["a", "Started", "c", "1", "n1", "<none>", "<none>"],
        ["b", "Gated", "d", "0", "<none>", "reserve.dra/claim", "<none>"],
    ]
    assert table(get("po -A --no-headers"))[0][:2] == ["ml", "a"]


def test_nodes_with_their_state_and_devices(get):
    assert table(get("nodes -o wide")) == [
        ["NAME", "STATE", "DEVICES", "HELD", "FREE", "CLAIMS", "TAINTS", "KEEPS", "BATCH-CPU", "BATCH-MEMORY"],
        ["n1", "Ready", "2", "1", "1", "1", "gpu=yes:NoSchedule", "<none>", "<none>", "<none>"],
        ["n2", "NotReady,Cordoned", "2", "0", "0", "0", "<none>", "cpu=2", "<none>", "<none>"],
    ]


def test_one_object_as_data(get):
    assert json.loads(get("pod/a -o json").stdout)["devices"] == ["gpu.example.com/n1/gpu-0"]
    assert json.loads(get("node n1 -o json").stdout)["claims"] == ["ml/c"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param("pod/unrelated", "pod unrelated: not found. See: kubectl dra get pods -A", id="pod"),
        pytest.param("node/n9", "node n9: not found. See: kubectl dra get nodes", id="node"),
    ],
)
def test_what_is_not_found(get, arguments, said):
    shown = get(arguments)
    assert (shown.exit_code, said in shown.stderr) == (2, True)


REPORTED = ["this", "is", "what", "was", "last", "reported"]

COUNTED_AS_REPORTED = [
    *("pods", "1", "started,", "0", "starting,", "0", "waiting,", "0", "gated,", "0", "finished;"),
    *("1", "of", "them", "on", "nodes", "that", "are", "not", "Ready,", "as", "last", "reported"),
]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        pytest.param("get pods a", ["a", "Started,NodeNotReady", "c", "1", "n1"], id="in-the-list"),
        pytest.param(
            "explain pod a -n ml",
            ["pod", "ml/a:", "started", "on", "node", "n1,", "which", "is", "not", "Ready:", *REPORTED],
            id="in-the-explanation",
        ),
        pytest.param("explain claim c -n ml", COUNTED_AS_REPORTED, id="in-the-explanation-of-its-claim"),
    ],
)
def test_what_a_node_reported_before_it_was_lost_is_told_as_such(tmp_path, command, line):
    users = (pod("a", "c", on="n1", phase="Running", started=True),)
    lost = snapshot(claim("c", "n1/gpu-0"), pods=users, nodes=[node("n1", ready=False)])
    write_bundle(lost, tmp_path / "b.tgz")
    shown = CliRunner().invoke(main, [*command.split(), "--from", str(tmp_path / "b.tgz")])
    assert line in table(shown)
