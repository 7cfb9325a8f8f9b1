"""``kubectl dra usage --batch``: nodes, sums, and what is said where a part is missing."""

import json

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from tests.dra.engine.diagnosis.colocated import GIB, at, busy, config, metric, node, snapshot

GAPS = [
    "nodemetrics.slo.koordinator.sh",
    "pods of other namespaces",
    "configmaps koordinator-system/slo-controller-config",
]


@pytest.fixture
def usage(tmp_path):
    """Run the command on a bundle of a cluster with one busy node, unless parts are given."""

    def run(arguments="", **parts):
        write_bundle(snapshot(**(busy() | parts)), tmp_path / "b.tgz")
        done = CliRunner().invoke(main, ["usage", "--batch", *arguments.split(), "--from", str(tmp_path / "b.tgz")])
        assert done.exit_code == 0, done.output
        return done

    return run


def table(done):
    return [line.split() for line in done.stdout.splitlines()]


def test_each_node_has_a_row_of_cpus_and_one_of_memory_and_sums_follow(usage):
    second = node("n2", batch=(1000, GIB))
    assert table(usage(nodes=[node(), second], metrics=[*busy()["metrics"], metric("n2")])) == [
        ["NODE", "RESOURCE", "CAPACITY", "USED", "OFFERED", "HELD", "LEFT", "HELD%"],
        ["n1", "batch-cpu", "16000m", "6000m", "8000m", "3000m", "5000m", "38%"],
        ["n1", "batch-memory", "65536Mi", "20480Mi", "16384Mi", "3072Mi", "13312Mi", "19%"],
        ["n2", "batch-cpu", "16000m", "6000m", "1000m", "0m", "1000m", "0%"],
        ["n2", "batch-memory", "65536Mi", "20480Mi", "1024Mi", "0Mi", "1024Mi", "0%"],
        ["<total>", "batch-cpu", "32000m", "12000m", "9000m", "3000m", "6000m", "33%"],
        ["<total>", "batch-memory", "131072Mi", "40960Mi", "17408Mi", "3072Mi", "14336Mi", "18%"],
    ]


def test_wide_adds_requests_and_the_age_of_the_report(usage):
    assert table(usage("-o wide", metrics=[metric(updated=at(hours=2))]))[1][-3:] == ["7000m", "2h", "(stale)"]


def test_as_data_amounts_are_numbers_with_their_unit(usage):
    content = json.loads(usage("-o json").stdout)
    assert content["items"][0] == {
        "kind": "NodeBatchUsage",
        "node": "n1",
        "resource": "kubernetes.io/batch-cpu",
        "unit": "milliCPU",
        "capacity": 16000,
        "used": 6000,
        "requested": 7000,
        "offered": 8000,
        "held": 3000,
        "left": 5000,
        "pods": 2,
        "sampling": "fresh",
        "sampledAt": at(seconds=35),
    }
    assert content["totals"][0]["node"] == "total"


def test_rows_are_selected_by_field_and_then_have_no_sums(usage):
    assert [row[:2] for row in table(usage("--field-selector unit=byte"))[1:]] == [["n1", "batch-memory"]]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        pytest.param(
            {"metrics": None},
            "NodeMetrics are not served, so the use of nodes is unknown: install",
            id="half-installed",
        ),
        pytest.param(
            {"config_map": None}, "slo-controller-config: does not exist, so colocation is off", id="no-config-map"
        ),
        pytest.param({"config_map": config("{")}, "colocation-config: is not valid JSON", id="config-map-broken"),
        pytest.param({"config_map": config({"enable": False})}, "enables colocation for no node", id="feature-off"),
        pytest.param(
            {"metrics": [metric(updated=at(hours=2))]},
            "1 of 1 nodes with colocation are not sampled (n1): only what batch pods hold there stays offered. See: "
            "kubectl dra explain node n1",
            id="report-stale",
        ),
    ],
)
def test_what_makes_numbers_small_is_said_beside_the_table(usage, parts, said):
    assert said in usage(**parts).stderr


def test_without_a_right_numbers_are_unknown_and_the_lines_say_which(usage):
    done = usage(gaps=GAPS, metrics=[], config_map=None)
    assert table(done)[1] == ["n1", "batch-cpu", "16000m", "<unknown>", "8000m", "<unknown>", "<unknown>", "<unknown>"]
    assert [line.partition(": no right")[0] for line in done.stderr.splitlines()] == [
        f"not read: {gap}" for gap in GAPS
    ]


def test_a_cluster_without_colocation_has_no_rows(usage):
    done = usage(nodes=[node(batch=None)], metrics=None, config_map=None, pods=[])
    assert done.stdout == ""
    assert done.stderr.startswith("No resources found")


def test_a_node_that_offers_nothing_yet_has_a_row(usage):
    assert table(usage(nodes=[node(batch=None)], pods=[]))[1][4:] == ["<none>", "0m", "<none>", "<none>"]
