"""``kubectl dra usage``: groups, free devices and totals."""

import json

import msgspec
import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from dra.engine.diagnosis.snapshot import UnreadResource
from tests.dra.engine.diagnosis.cluster_states import claim, node, offer, offer_partitions, pod, snapshot
from tests.dra.engine.diagnosis.test_workloads import RESERVED


@pytest.fixture
def usage(tmp_path):
    """Run the command on a bundle: of six devices two are held, one is in use."""

    def run(arguments="", *, gaps=(), **more):
        found = snapshot(
            claim("used", "n1/gpu-0", **RESERVED),
            claim("held", "n2/gpu-0", namespace="other"),
            pods=(pod("a", "used", on="n1", phase="Running", started=True),),
            **more,
        )
        write_bundle(msgspec.structs.replace(found, gaps=gaps), tmp_path / "b.tgz")
        done = CliRunner().invoke(main, ["usage", *arguments.split(), "--from", str(tmp_path / "b.tgz")])
        assert done.exit_code == 0, done.output
        return done.stdout if "json" in arguments or "csv" in arguments else done.output

    return run


def table(output):
    return [line.split() for line in output.splitlines()]


def test_groups_are_followed_by_the_totals_and_the_free_devices(usage):
    assert table(usage("--by workload")) == [
        ["WORKLOAD", "HELD", "USED", "PODS", "CLAIMS", "HELD%"],
        ["ml/jobs.batch/train", "1", "1", "1", "1", "17%"],
        ["other/<none>", "1", "0", "0", "1", "17%"],
        ["<total>", "2", "1", "1", "2", "33%"],
        ["6", "devices", "are", "offered:", "2", "held,", "4", "free"],
    ]


def test_claims_that_a_reservation_keeps_are_the_reservations(tmp_path):
    keeps = {"apiGroup": "scheduling.koordinator.sh", "resource": "reservations", "name": "night", "uid": "uid-r"}
    kept = (claim("kept", "n1/gpu-0", listed=(keeps,)), claim("own", "n1/gpu-1", listed=(keeps,), **RESERVED))
    write_bundle(snapshot(*kept), tmp_path / "b.tgz")
    for arguments, prefix in (
        (["usage", "--by", "workload"], "ml/"),
        (["usage", "--idle", "--by", "workload"], "ml/"),
        (["get", "claims", "-A"], ""),
    ):
        done = CliRunner().invoke(main, [*arguments, "--from", str(tmp_path / "b.tgz")])
        cells = {cell for line in table(done.stdout) for cell in line}
        assert {f"{prefix}reservation/night", f"{prefix}jobs.batch/train"} <= cells, done.output


def test_nodes_have_free_devices_and_a_sum(usage):
    assert table(usage("--by node"))[1:] == [
        ["n1", "2", "1", "1", "1", "1", "1", "50%"],
        ["n2", "2", "1", "0", "0", "1", "1", "50%"],
        ["n3", "2", "0", "0", "0", "0", "2", "0%"],
        ["<total>", "6", "2", "1", "1", "2", "4", "33%"],
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("-n other", id="of-one-namespace"),
        pytest.param("--field-selector used=0", id="of-selected-groups"),
        pytest.param("-o csv", id="as-records"),
    ],
)
def test_totals_are_of_all_devices_or_not_there(usage, arguments):
    assert "<total>" not in usage(arguments)


def test_as_data_totals_are_beside_the_items(usage):
    content = json.loads(usage("-o json"))
    assert [each["namespace"] for each in content["items"]] == ["ml", "other"]
    assert content["totals"] == [
        {
            "namespace": "total",
            "held": 2,
            "used": 1,
            "pods": 1,
            "claims": 2,
            "heldPercent": 33,
            "devices": 6,
            "free": 4,
            "unusable": 0,
            "overlapping": 0,
        },
    ]


def test_no_device_is_called_free_unless_all_claims_were_read(usage):
    unread = (UnreadResource(resource="resourceclaims.resource.k8s.io of other namespaces", why="no right"),)
    assert "unknown how many are free, since not all claims could be read" in usage(gaps=unread)
    assert table(usage("--by node", gaps=unread))[1][-2] == "<unknown>"


def test_the_parts_of_a_card_that_is_held_as_a_whole_are_neither_free_nor_unusable(usage):
    partitions = {"nodes": [node("n1"), node("n2")], "slices": [offer_partitions("n1"), offer("n2", devices=1)]}
    assert table(usage("--by node", **partitions))[1] == ["n1", "3", "1", "1", "1", "1", "0", "100%"]
    whole = usage("--by workload", **partitions)
    assert "4 devices are offered: 2 held, 0 free, 2 overlap with held devices\n" in whole
    assert table(whole)[-2][-1] == "100%"


@pytest.mark.parametrize("by", ["namespace", "workload", "class"])
def test_without_a_claim_all_devices_are_free(tmp_path, by):
    write_bundle(snapshot(), tmp_path / "b.tgz")
    done = CliRunner().invoke(main, ["usage", f"--by={by}", "--from", str(tmp_path / "b.tgz")])
    assert table(done.stdout)[1:] == [["<total>", "0", "0", "0", "0", "0%"]]
    assert done.stderr == "6 devices are offered: 0 held, 6 free\n"


def test_of_no_device_nobody_knows_the_part(usage):
    assert table(usage(slices=[offer("n9", devices=0)], nodes=[node("n1")]))[1][-1] == "<unknown>"


def observing(name, *devices):
    found = claim(name, *devices)
    for result in found["status"]["allocation"]["devices"]["results"]:
        result["adminAccess"] = True
    return found


def sharing(name, device):
    found = claim(name, device)
    found["status"]["allocation"]["devices"]["results"][0]["shareID"] = f"share-{name}"
    return found


@pytest.mark.parametrize(
    ("claims", "rows", "summary"),
    [
        pytest.param(
            [claim("held", "n1/gpu-0"), observing("watch", "n1/gpu-0", "n1/gpu-1")],
            [["ml", "1", "0", "0", "2", "50%", "2"], ["<total>", "1", "0", "0", "2", "50%", "2"]],
            "2 devices are offered: 1 held, 1 free\n",
            id="admin-access-is-counted-apart",
        ),
        pytest.param(
            [sharing("a", "n1/gpu-0"), sharing("b", "n1/gpu-0"), sharing("c", "n1/gpu-0")],
            [["ml", "1", "0", "0", "3", "50%", "0"], ["<total>", "1", "0", "0", "3", "50%", "0"]],
            "2 devices are offered: 1 held, 1 free\n",
            id="a-device-that-claims-share-counts-once",
        ),
        pytest.param(
            [claim("held", "n1/gpu-0"), claim("lost", "n1/gpu-9")],
            [["ml", "2", "0", "0", "2", "67%", "0"], ["<total>", "2", "0", "0", "2", "67%", "0"]],
            "2 devices are offered: 1 held, 1 free; no driver offers 1 more, which claims hold\n",
            id="a-held-device-that-is-gone",
        ),
    ],
)
def test_no_group_holds_more_than_all_devices(tmp_path, claims, rows, summary):
    write_bundle(snapshot(*claims, nodes=[node("n1")]), tmp_path / "b.tgz")
    done = CliRunner().invoke(main, ["usage", "--by=namespace", "-o", "wide", "--from", str(tmp_path / "b.tgz")])
    assert table(done.stdout)[1:] == rows
    assert done.stderr == summary
