"""`kubectl dra get` and its kin have the flags and habits of kubectl."""

import json

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots import bundle_file
from dra.engine.claims.view import WorkloadPhase
from tests.dra.engine.diagnosis.cluster_states import JOB, claim, entry, pod, snapshot, workload


@pytest.fixture
def kubectl(tmp_path):
    """Run `kubectl dra` on a cluster of three claims, one of them waiting."""
    held = claim(
        "train", "n1/gpu-0", listed=(JOB, entry("a")), annotations={"reserve.dra/reserved-for": "jobs.batch/train"}
    )
    pods = (pod("a", "train", on="n1", phase="Running", started=True), pod("b", "waits"))
    taken = snapshot(held, claim("waits"), pods=pods, workloads=(workload(WorkloadPhase.PRESENT),))
    bundle_file.write_bundle(taken, tmp_path / "b.tgz")
    return lambda *arguments: CliRunner().invoke(main, [*arguments, "--from", str(tmp_path / "b.tgz")])


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param(
            ["-o", "name"], "resourceclaim.resource.k8s.io/train\nresourceclaim.resource.k8s.io/waits\n", id="name"
        ),
        pytest.param(["-o", "jsonpath={.items[*].metadata.name}"], "train waits", id="jsonpath"),
        pytest.param(["train", "-o", "jsonpath={.workload}"], "jobs.batch/train", id="one-is-no-list"),
        pytest.param(
            ["-o", "custom-columns=N:.metadata.name,FOR:.workload"],
            "N       FOR\ntrain   jobs.batch/train\nwaits   <none>\n",
            id="columns",
        ),
        pytest.param(["-o", "custom-columns=N:.metadata.name", "--no-headers"], "train\nwaits\n", id="no-headers"),
        pytest.param(
            ["--field-selector", "state=Pending", "-o", "name"], "resourceclaim.resource.k8s.io/waits\n", id="field"
        ),
        pytest.param(
            ["--field-selector", "metadata.namespace=ml,metadata.name!=waits", "-o", "name"],
            "resourceclaim.resource.k8s.io/train\n",
            id="fields",
        ),
        pytest.param(
            ["--sort-by", "{.users.started}", "-o", "name"],
            "resourceclaim.resource.k8s.io/waits\nresourceclaim.resource.k8s.io/train\n",
            id="sorted",
        ),
    ],
)
def test_claims_are_listed_as_kubectl_lists_things(kubectl, arguments, shown):
    done = kubectl("get", "claims", *arguments)
    assert (done.exit_code, done.stdout) == (0, shown), done.output


@pytest.mark.parametrize("kind", ["claims", "devices", "pods", "nodes", "reservations"])
def test_as_data_a_list_is_a_list_as_kubectl_prints_lists(kubectl, kind):
    content = json.loads(kubectl("get", kind, "-o", "json").stdout)
    assert (content["apiVersion"], content["kind"], content["metadata"]) == ("v1", "List", {"resourceVersion": ""})


def test_wide_has_more_columns(kubectl):
    narrow, wide = (kubectl("get", "claims", "-o", output).stdout.splitlines() for output in ("table", "wide"))
    assert "RELEASED-WHEN" in wide[0]
    assert all(long.startswith(short.split()[0]) for short, long in zip(narrow, wide, strict=True))


def test_nothing_found_is_said_on_stderr(kubectl):
    done = kubectl("get", "claims", "-n", "empty")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "No resources found in empty namespace.\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["get", "claims", "-o", "xml"], "is not a valid format; use table", id="format"),
        pytest.param(["get", "claims", "-o", "jsonpath={.a"], "unbalanced brace", id="template"),
        pytest.param(["get", "claims", "-o", "jsonpath="], "jsonpath", id="empty-template"),
        pytest.param(["get", "claims", "-l", "a=b"], "a bundle has no labels", id="labels-of-a-bundle"),
        pytest.param(["get", "claims", "-l", "a in b"], "--selector", id="selector"),
        pytest.param(["get", "devices", "-l", "a=b"], "devices have no labels", id="labels-of-devices"),
        pytest.param(["get", "claims", "--field-selector", "colour=red"], "unknown field colour", id="field"),
        pytest.param(["get", "claims", "--sort-by", ".colour"], "unknown field .colour", id="order"),
        pytest.param(["get", "claims", "-w"], "--watch cannot be used with --from", id="watch"),
        pytest.param(
            ["explain", "claim", "train", "-o", "name"], "is not a valid format; use table", id="format-of-lists-only"
        ),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(kubectl, arguments, expected):
    done = kubectl(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert expected in done.stderr


@pytest.mark.parametrize("by", ["namespace", "workload", "class", "node"])
def test_the_columns_of_usage_stand_below_their_headers(kubectl, by):
    header, *rows = kubectl("usage", "--by", by).stdout.splitlines()
    begins = [header.index(name) for name in header.split()]
    assert all(row[begin] != " " and (begin == 0 or row[begin - 1] == " ") for row in rows for begin in begins)


def test_usage_as_data_has_numbers(kubectl):
    (row,) = json.loads(kubectl("usage", "--by", "workload", "-o", "json").stdout)["items"]
    assert row == {"workload": "ml/jobs.batch/train", "held": 1, "used": 1, "pods": 1, "claims": 1, "heldPercent": 17}


@pytest.mark.parametrize("by", ["namespace", "class", "node"])
def test_usage_counts_each_pod_once(tmp_path, by):
    """Pods with two claims, and on shared devices, were counted once for each claim and device."""
    claims = (claim("a", "n1/gpu-0", listed=(entry("p"),)), claim("b", "n1/gpu-0", "n1/gpu-1", listed=(entry("p"),)))
    pods = (
        pod("p", "a", "b", on="n1", phase="Running", started=True),
        pod("q", "b", on="n1", phase="Running", started=True),
    )
    bundle_file.write_bundle(snapshot(*claims, pods=pods), tmp_path / "b.tgz")
    done = CliRunner().invoke(main, ["usage", "--by", by, "-o", "json", "--from", str(tmp_path / "b.tgz")])
    row = next(each for each in json.loads(done.stdout)["items"] if each["claims"])
    assert (row["pods"], row["claims"]) == (2, 2)


def test_problems_have_names_and_next_commands(kubectl):
    assert kubectl("audit", "-o", "name").exit_code in (0, 1)
    assert kubectl("audit", "-o", "jsonpath={.claims}").stdout == "2"
