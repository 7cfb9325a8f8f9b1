import socket

import pytest
from click.testing import CliRunner

from dra.cli.main import main


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run `dra-reserve descheduler` where no cluster can be found by accident."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return lambda *arguments: CliRunner().invoke(main, ["descheduler", *arguments])


@pytest.fixture
def kubeconfig(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text("{}")
    return str(path)


@pytest.fixture
def configuration(tmp_path):
    def write(text):
        path = tmp_path / "configuration.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_help_says_what_the_process_does(run):
    shown = run("--help")
    assert shown.exit_code == 0
    assert "capacity is reserved elsewhere before a pod is evicted" in " ".join(shown.stdout.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("migrations: {}", "migrations: unknown field", id="unknown-field"),
        pytest.param("migration: {evictQps: 3}", "migration.evictQps", id="unknown-field-inside"),
        pytest.param("migration: {evictQPS: 0}", "migration.evictQPS: ", id="no-eviction-at-all"),
        pytest.param("migration: {evictionPolicy: Kill}", "migration.evictionPolicy: ", id="no-such-policy"),
        pytest.param("migration: {maxMigratingPerWorkload: 10}\nqps: -1", "qps: ", id="negative"),
        pytest.param("- a", "must be a mapping", id="a-list"),
        pytest.param("migration: {", "not valid YAML", id="no-yaml"),
        pytest.param("leaderElection: {leaseSeconds: 10, renewSeconds: 10}", "leaderElection: ", id="lease"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(run, configuration, kubeconfig, text, expected):
    refused = run("--config", configuration(text), "--kubeconfig", kubeconfig)
    assert refused.exit_code == 1, refused.exception
    assert expected in refused.stderr
    assert "Traceback" not in refused.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--config", "/nowhere.yaml"], "'/nowhere.yaml' does not exist", id="no-such-file"),
        pytest.param(["--mode", "replace"], "No such option", id="an-option-of-the-controller"),
        pytest.param(["--kubeconfig", "/nowhere/config"], "'/nowhere/config' does not exist", id="no-kubeconfig"),
    ],
)
def test_a_bad_command_line_is_refused_as_a_usage_error(run, arguments, expected):
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert expected in refused.stderr


def test_without_a_cluster_it_says_where_it_has_looked(run):
    refused = run()
    assert refused.exit_code == 1
    assert "no kubeconfig" in refused.stderr


@pytest.mark.parametrize("endpoint", ["probes", "metrics"])
def test_a_port_that_is_taken_is_told(run, configuration, kubeconfig, endpoint):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {"probes": 0, "metrics": 0, endpoint: taken.getsockname()[1]}
        text = "\n".join(f"{name}: {{port: {port}}}" for name, port in ports.items())
        refused = run("--config", configuration(text), "--kubeconfig", kubeconfig)
    assert refused.exit_code == 1, refused.exception
    assert "address already in use" in refused.stderr
