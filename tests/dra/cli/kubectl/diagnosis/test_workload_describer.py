"""``kubectl dra explain job/train``: what is printed of a workload."""

import json

import msgspec
import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.bundle_file import write_bundle
from dra.engine.claims.view import WorkloadPhase
from tests.dra.engine.diagnosis.cluster_states import SOMEBODY, claim, node, pod, snapshot, workload
from tests.dra.engine.diagnosis.test_workloads import HOLDER, RESERVED, SERVING, TRAIN, controller, of


@pytest.fixture
def explain(tmp_path):
    """Run the command on a bundle of claims, pods and controllers."""

    def run(arguments, *claims, pods=(), workloads=(SERVING,), controllers=(TRAIN,)):
        found = snapshot(*claims, pods=pods, workloads=workloads, leader=SOMEBODY)
        write_bundle(msgspec.structs.replace(found, controllers=tuple(controllers)), tmp_path / "b.tgz")
        return CliRunner().invoke(main, ["explain", *arguments.split(), "--from", str(tmp_path / "b.tgz")])

    return run


NODES = (
    "  nodes     3 nodes (n1, n2, n3): request gpu: 2 devices, 2 held, 0 free, 1 requested; held: 6 by claim ml/holder "
    "(for jobs.batch/serve until jobs.batch/serve completes or fails, or is deleted)"
)
ALL = "train-0, train-1, train-2, train-3, train-4"
WAITING = [pod(f"train-{number}", "c", **of("uid-job")) for number in range(5)]


def test_claims_pods_counted_reasons_and_the_next_step(explain):
    shown = explain("job/train -n ml", claim("c", **RESERVED), HOLDER, pods=WAITING)
    assert shown.exit_code == 1
    assert [line for line in shown.output.splitlines() if not line.startswith(("  unknown", "  do"))] == [
        "job ml/train: exists, uses 1 claim",
        "  pods      0 started, 0 starting, 5 waiting, 0 gated, 0 finished",
        "  claim     c: has no devices, 5 pods wait for it",
        NODES,
        f"  warning   Unschedulable: 5 pods ({ALL}), each: none of 3 nodes can run it",
        "  next      kubectl dra wait claim holder -n ml --for=released",
    ]


def test_pods_on_lost_nodes_are_counted_as_last_reported(tmp_path):
    users = [pod("train-0", "c", on="n1", phase="Running", started=True, **of("uid-job"))]
    lost = snapshot(claim("c", "n1/gpu-0", **RESERVED), pods=users, nodes=[node("n1", ready=False)])
    write_bundle(msgspec.structs.replace(lost, controllers=(TRAIN,)), tmp_path / "b.tgz")
    shown = CliRunner().invoke(main, ["explain", "job/train", "-n", "ml", "--from", str(tmp_path / "b.tgz")])
    assert (
        "  pods      1 started, 0 starting, 0 waiting, 0 gated, 0 finished; 1 of them on nodes that are not Ready, as "
        "last reported"
    ) in shown.output.splitlines()


@pytest.mark.parametrize(
    "words",
    ["job/train", "job train", "jobs/train", "jobs.batch/train", "job.batch/train", "jobs.v1.batch/train", "Job train"],
)
def test_every_form_that_kubectl_takes(explain, words):
    assert explain(words, claim("c", **RESERVED)).output.startswith("job ml/train: exists")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param("jobs.batch.volcano.sh/train", "the bundle has no such workload", id="another-group"),
        pytest.param("job/tain", "the bundle has no such workload", id="another-name"),
        pytest.param("calim/train", "Did you mean claim", id="a-typo"),
        pytest.param("job", "'job' is none of claim, ", id="no-name"),
        pytest.param("job/train", "found in namespaces ml, other; select one with -n NAMESPACE", id="several"),
        pytest.param("a_b/train", "'a_b' is not a resource name", id="no-kind-at-all"),
    ],
)
def test_what_is_not_found_says_what_would_be(explain, words, said):
    other = [msgspec.structs.replace(TRAIN, namespace="other", uid="uid-other")] if "namespaces" in said else []
    shown = explain(words, claim("c", **RESERVED), controllers=(TRAIN, *other))
    assert shown.exit_code == 2
    assert said in shown.stderr


def test_a_deployment_is_explained_by_the_pods_of_its_replicasets(explain):
    known = (
        controller("Deployment", "web", uid="uid-web"),
        controller("ReplicaSet", "web-1", uid="uid-rs", controller="uid-web"),
    )
    shown = explain("deploy/web", claim("c"), pods=[pod("web-1-a", "c", **of("uid-rs"))], controllers=known)
    assert "deployment ml/web: exists, uses 1 claim" in shown.output
    assert "1 waiting" in shown.output


def test_a_workload_without_pods_that_a_claim_refers_to(explain):
    gone = workload(WorkloadPhase.ABSENT, uid="")
    shown = explain("jobs.batch/train", claim("c", **RESERVED), workloads=[gone], controllers=())
    assert shown.output.startswith("job ml/train: does not exist; 1 claim is reserved for it\n")


def test_as_data_with_the_same_counts(explain):
    shown = explain("job/train -o json", claim("c", **RESERVED), HOLDER, pods=WAITING)
    content = json.loads(shown.output)
    assert (content["kind"], content["reference"], content["users"]["waiting"]) == ("Job", "jobs.batch/train", 5)
    assert [(each["trouble"], each["count"]) for each in content["problems"]] == [("Unschedulable", 5)]
    assert content["next"] == "kubectl dra wait claim holder -n ml --for=released"
    assert content["groups"][0]["example"]["nodes"][0].startswith("3 nodes (n1, n2, n3): request gpu")
