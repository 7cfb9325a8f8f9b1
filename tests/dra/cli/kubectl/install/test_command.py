"""`kubectl dra install` on a server: a plan, a question, and nothing without an answer."""

import json

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main
from dra.kube.transport import Request
from localplane.objects import encode
from localplane.schemas.builtin_schemas import Dialect
from tests.localplane.threaded import served


@pytest.fixture
def kubeconfig(tmp_path):
    """A server of its own, in a thread of its own."""
    with served(tmp_path, Dialect.STOCK) as found:
        yield found


@pytest.fixture
def run(kubeconfig, monkeypatch):
    """Run the command; the server has no policies, as a local plane has none."""

    async def local_plane(_client):
        return {}

    monkeypatch.setattr("dra.cli.kubectl.connection.companion_processes", local_plane)
    return lambda *arguments, **more: CliRunner().invoke(
        main, ["install", f"--kubeconfig={kubeconfig}", *arguments], **more
    )


def installed(run, *arguments):
    """How many objects are there already."""
    plan = json.loads(run("--dry-run", "-o", "json", *arguments).stdout)
    return sum(each["action"] == "unchanged" for each in plan["objects"])


def test_a_dry_run_prints_the_plan_and_changes_nothing(run):
    done = run("--dry-run")
    assert done.exit_code == 0, done.output
    assert "namespace/dra-reserve " in done.stdout
    assert "deployment.apps/dra-reserve-controller -n dra-reserve" in done.stdout
    assert "image: dra-reserve:0.1.0 is in no registry" in done.stdout
    assert installed(run) == 0


def test_it_installs_after_yes_and_again_changes_nothing(run):
    done = run("--yes", "--image=registry.example.com/dra-reserve:1")
    assert done.exit_code == 0, done.output
    assert "deployment.apps/dra-reserve-controller -n dra-reserve created" in done.stderr
    assert "kubectl rollout status deployment dra-reserve-controller -n dra-reserve" in done.stderr
    again = run("--yes")
    assert again.exit_code == 0
    assert "created" not in again.stderr
    assert "image: kept as registry.example.com/dra-reserve:1; use --image for another one" in again.stdout


def test_the_installed_configuration_is_kept_and_extended(run, tmp_path):
    given = tmp_path / "config.yaml"
    given.write_text("qps: 77\nreservations: false\n")
    assert run("--yes", f"--config={given}").exit_code == 0
    done = run("--yes", "--with=reservations", "--force-conflicts")
    assert done.exit_code == 0, done.output
    assert "configuration: kept from ConfigMap controller-config-" in done.stdout
    (config,) = (
        each
        for each in json.loads(run("--dry-run", "--with=reservations", "-o", "json").stdout)["objects"]
        if each["name"].startswith("controller-config-")
    )
    assert config["action"] == "unchanged"


def test_without_a_terminal_it_wants_yes(run):
    done = run()
    assert done.exit_code == 2
    assert "no terminal that could confirm the plan; nothing was changed. Use --yes" in done.stderr
    assert installed(run) == 0


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 0)], ids=["no", "yes"])
def test_it_asks_and_takes_no_for_an_answer(run, monkeypatch, answer, code):
    monkeypatch.setattr("dra.cli.kubectl.install.command.is_interactive", lambda: True)
    done = run(input=answer)
    assert done.exit_code == code, done.output


def test_what_preflight_would_find_prevents_it(run, monkeypatch):
    monkeypatch.setattr("dra.cli.kubectl.preflight.command.OLDEST_VERSION", (9, 9))
    done = run("--yes")
    assert done.exit_code == 1
    assert "error: check version: missing; nothing was changed" in done.stderr


def test_mode_replace_says_how_to_disable_the_stock_controller(run, monkeypatch):
    async def none(_client):
        return None

    monkeypatch.setattr("dra.cli.kubectl.preflight.stock_controller_reader.connection.companion_processes", none)
    done = run("--dry-run", "--mode=replace")
    assert "append ,-resourceclaim-controller to --controllers of every kube-controller-manager" in done.stdout
    assert "check stock controller" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--with=descheduler"], "descheduler: requires reservations", id="components"),
        pytest.param(["--mode=both"], "'both' is not one of", id="mode"),
    ],
)
def test_a_wrong_command_line_asks_no_cluster(arguments, said):
    done = CliRunner().invoke(main, ["install", "--dry-run", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_configuration_that_is_none_is_refused_before_anything_is_written(run, tmp_path):
    given = tmp_path / "config.yaml"
    given.write_text("qqps: 77\n")
    done = run("--yes", f"--config={given}")
    assert "configuration of the controller: qqps: unknown field" in done.stderr
    assert installed(run) == 0


async def namespace_of_a_team(server):
    """A namespace that somebody else has created."""
    body = encode({"metadata": {"name": "ml", "labels": {"team": "vision"}}})
    request = Request(method="POST", path="/api/v1/namespaces", body=body, content_type="application/json", timeout=5.0)
    assert (await server.handle(request)).status == 201


@pytest.fixture
def run_beside_a_team(tmp_path, monkeypatch):
    """Run the command on a server with namespace ml, which is a local plane or not."""

    def call(*arguments, is_plane=True):
        async def processes(_client):
            return {} if is_plane else None

        monkeypatch.setattr("dra.cli.kubectl.connection.companion_processes", processes)
        return CliRunner().invoke(main, ["install", f"--kubeconfig={kubeconfig}", *arguments])

    with served(tmp_path, Dialect.STOCK, prepare=namespace_of_a_team) as kubeconfig:
        yield call


def test_gate_labels_the_namespace_last_and_says_what_that_costs(run_beside_a_team):
    done = run_beside_a_team("--gate=ml", "--gate=ml", "--yes")
    assert done.exit_code == 0, done.output
    assert done.stderr.index("deployment.apps/dra-reserve-controller") < done.stderr.index("namespace/ml changed")
    assert done.stdout.count("none starts while no controller works. The way out: kubectl dra ungate --help") == 1
    again = json.loads(run_beside_a_team("--gate=ml", "--dry-run", "-o", "json").stdout)
    assert [write["action"] for write in again["objects"] if write["name"] == "ml"] == ["unchanged"]


def test_gate_creates_no_namespace(run_beside_a_team):
    done = run_beside_a_team("--gate=typo", "--yes")
    assert done.exit_code == 1
    assert "no such namespace: create it first" in done.stdout
    assert "nothing was changed" in done.stderr


def test_gate_is_refused_where_the_api_server_has_no_such_policies(run_beside_a_team):
    done = run_beside_a_team("--gate=ml", "--yes", is_plane=False)
    assert done.exit_code == 1
    assert "does not serve kind MutatingAdmissionPolicy in admissionregistration.k8s.io/v1: the gate by" in done.stdout
    assert "write the gate reserve.dra/claim into the pod templates" in done.stdout
    assert "nothing was changed" in done.stderr
