"""`kubectl dra uninstall` on a server: what is ours goes, what others own or need stays."""

import json

import pytest
import yaml
from click.testing import CliRunner

from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.main import main
from dra.cli.manifests import kustomization
from localplane.schemas.builtin_schemas import Dialect
from tests.localplane.threaded import served


@pytest.fixture
def kubeconfig(tmp_path):
    """A server of its own, in a thread of its own."""
    with served(tmp_path, Dialect.STOCK) as found:
        yield found


@pytest.fixture
def run(kubeconfig, monkeypatch):
    """Run a command of the plugin; the server has no policies, as a local plane has none."""

    async def local_plane(_client):
        return {}

    monkeypatch.setattr("dra.cli.kubectl.connection.companion_processes", local_plane)
    return lambda command, *arguments, **more: CliRunner().invoke(
        main, [command, f"--kubeconfig={kubeconfig}", *arguments], **more
    )


INSTALLED = {
    "Namespace/dra-reserve",
    "CustomResourceDefinition/reservations.scheduling.koordinator.sh",
    "ServiceAccount/dra-reserve-controller",
    "ClusterRole/dra-reserve-viewer",
    "Deployment/dra-reserve-extender",
}
"""Some of what the component reservations and the controller consist of; the rest is no different."""


@pytest.fixture
def installed(run, tmp_path):
    """The same, after an installation with a kind."""
    rendered = [*kustomization.render("deploy/kustomize/alongside"), *kustomization.render("deploy/reservations")]
    apply(run, tmp_path, *(each for each in rendered if f"{each['kind']}/{each['metadata']['name']}" in INSTALLED))
    return run


@pytest.fixture
def downgraded(monkeypatch):
    """The steps outside of the claims are done: they need other components than an API server."""

    async def run_checks(*_arguments):
        return []

    monkeypatch.setattr("dra.cli.kubectl.downgrade.cluster_checks.run_checks", run_checks)


def planned(run, *arguments):
    """What an uninstallation would do: name and kind → action and detail."""
    objects = json.loads(run("uninstall", "--dry-run", "-o", "json", *arguments).stdout)["objects"]
    return {f"{each['kind']}/{each['name']}": (each["action"], each.get("detail", "")) for each in objects}


def apply(run, folder, *manifests):
    (folder / "given.yaml").write_text(yaml.safe_dump_all(manifests))
    done = run("apply", "-f", str(folder / "given.yaml"))
    assert done.exit_code == 0, done.output


@pytest.mark.usefixtures("downgraded")
def test_without_an_installation_there_is_nothing_to_delete(run):
    done = run("uninstall")
    assert (done.exit_code, done.stdout) == (0, "nothing to delete: no object has the label of an installation\n")


def test_a_dry_run_deletes_nothing(installed):
    before = planned(installed)
    assert before["Deployment/dra-reserve-extender"] == ("delete", "")
    assert planned(installed) == before


@pytest.mark.usefixtures("downgraded")
def test_everything_but_the_kinds_is_deleted_and_again_there_is_nothing_to_do(installed):
    done = installed("uninstall", "--yes")
    assert done.exit_code == 0, done.output
    first, *_, last = done.stderr.splitlines()
    assert first.startswith("deployment.apps/")
    assert last == "namespace/dra-reserve deleted"
    left = planned(installed)
    assert {action for action, _ in left.values()} == {"kept"}
    assert "--crds deletes it" in left["CustomResourceDefinition/reservations.scheduling.koordinator.sh"][1]


@pytest.mark.usefixtures("downgraded")
def test_the_kinds_are_deleted_on_request(installed):
    assert installed("uninstall", "--yes", "--crds").exit_code == 0
    assert planned(installed) == {}


def test_a_namespace_with_a_secret_of_the_user_is_kept(installed, tmp_path):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls", "namespace": "dra-reserve"}}
    apply(installed, tmp_path, secret)
    assert planned(installed)["Namespace/dra-reserve"] == ("kept", "also contains secret/tls")


def test_an_object_of_a_helm_release_is_kept(installed, tmp_path):
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "dra-reserve-viewer",
            "annotations": {"meta.helm.sh/release-name": "capacity"},
            "labels": {"app.kubernetes.io/part-of": "dra-reserve"},
        },
    }
    apply(installed, tmp_path, role)
    assert planned(installed)["ClusterRole/dra-reserve-viewer"] == (
        "kept",
        "belongs to the Helm release capacity: run helm uninstall capacity",
    )


def test_an_object_without_our_label_is_no_part_of_the_plan(installed, tmp_path):
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "dra-reserve-mine"},
    }
    apply(installed, tmp_path, role)
    assert "ClusterRole/dra-reserve-mine" not in planned(installed)


def test_a_pod_with_our_gate_prevents_it(installed, tmp_path):
    gated = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waits", "namespace": "default"},
        "spec": {"schedulingGates": [{"name": "reserve.dra/claim"}], "containers": [{"name": "main", "image": "app"}]},
    }
    apply(installed, tmp_path, gated)
    done = installed("uninstall", "--yes")
    assert done.exit_code == 1
    assert "error: steps of the downgrade remain, nothing was deleted" in done.stderr
    assert planned(installed)["Deployment/dra-reserve-extender"] == ("delete", "")


@pytest.mark.usefixtures("downgraded")
@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 0)], ids=["no", "yes"])
def test_it_asks_and_takes_no_for_an_answer(installed, monkeypatch, answer, code):
    monkeypatch.setattr("dra.cli.kubectl.install.uninstall.is_interactive", lambda: True)
    assert installed("uninstall", input=answer).exit_code == code


@pytest.mark.usefixtures("downgraded")
def test_without_a_terminal_it_wants_yes(installed):
    done = installed("uninstall")
    assert done.exit_code == 1
    assert "no terminal that could confirm the plan. Use --yes" in done.stderr


@pytest.fixture
def stock_works(monkeypatch):
    """The stock claim controller works: a server alone has none."""

    async def no_evidence(*_arguments, **_more):
        return None

    checks = "dra.cli.kubectl.downgrade.cluster_checks.stock_controller"
    monkeypatch.setattr(f"{checks}_reader.find_stock_controller", no_evidence)
    monkeypatch.setattr(
        f"{checks}.judge_stock_controller",
        lambda *_arguments, **_more: CheckResult(check="stock controller", state=CheckState.OK, detail="on"),
    )


RENDERED = kustomization.render("deploy/kustomize/alongside")
NAMESPACE_ONLY = [each for each in RENDERED if each["kind"] == "Namespace"]
CRDS_ONLY = [
    each
    for each in kustomization.render("deploy/reservations")
    if each["metadata"]["name"] == "reservations.scheduling.koordinator.sh"
]
WITHOUT_ROLES = [
    each for each in RENDERED if each["kind"] in {"Namespace", "ServiceAccount", "ConfigMap", "Deployment"}
]


@pytest.mark.usefixtures("stock_works")
@pytest.mark.parametrize(
    ("manifests", "arguments", "left"),
    [
        pytest.param(NAMESPACE_ONLY, (), {}, id="the-namespace-only"),
        pytest.param(CRDS_ONLY, ("--crds",), {}, id="kinds-only"),
        pytest.param(WITHOUT_ROLES, (), {}, id="no-replica-has-become-ready-and-a-role-is-missing"),
    ],
)
def test_an_installation_that_failed_half_way_is_removed(run, tmp_path, manifests, arguments, left):
    """Both ways out refused: downgrade because of the Deployment without a lease, uninstall because of downgrade."""
    apply(run, tmp_path, *manifests)
    done = run("uninstall", "--yes", *arguments)
    assert done.exit_code == 0, done.output
    assert planned(run) == left
    assert f"{len(manifests)} delete" in done.stdout


@pytest.mark.usefixtures("stock_works")
def test_claims_that_name_a_workload_are_listed_with_what_happens_to_them(run, tmp_path):
    apply(run, tmp_path, *NAMESPACE_ONLY, RESERVED)
    done = run("uninstall", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "claims that name a workload: default/train. Their annotations stay, without effect" in done.stdout


RESERVED = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {
        "name": "train",
        "namespace": "default",
        "annotations": {"reserve.dra/reserved-for": "jobs.batch/train"},
    },
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
}
