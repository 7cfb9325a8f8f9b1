"""The command ``dra-reserve page`` and its configuration file."""

import socket

import pytest
from click.testing import CliRunner

from dra.cli.main import main


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run `dra-reserve page` where no cluster can be found by accident."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: x, contexts: [{name: x, context: {cluster: x}}],"
        " clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}]}"
    )

    def run(text):
        path = tmp_path / "page.yaml"
        path.write_text(text)
        return CliRunner().invoke(main, ["page", "--config", str(path), "--kubeconfig", str(kubeconfig)])

    return run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("listen: {}", "listen: unknown field", id="unknown-field"),
        pytest.param("audience: ''", "audience: ", id="no-audience"),
        pytest.param("maxScopes: 0", "maxScopes: ", id="no-scope-at-all"),
        pytest.param("tls: {certificate: /tls.crt}", "tls.key: ", id="certificate-without-a-key"),
        pytest.param("tls: {certificate: /no.crt, key: /no.key}", "tls.certificate: /no.crt", id="no-such-certificate"),
        pytest.param("qps: 0", "qps: ", id="no-requests"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(run, text, expected):
    refused = run(text)
    assert refused.exit_code == 1, refused.exception
    assert expected in refused.stderr
    assert "Traceback" not in refused.output


def test_a_port_in_use_is_named(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run(f"serve: {{port: {port}}}\nprobes: null\nmetrics: null\nlogging: {{format: text}}\n")
    assert refused.exit_code == 1
    assert f"127.0.0.1:{port}: address already in use" in refused.stderr
