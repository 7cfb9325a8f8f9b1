"""kubectl's flags for requests."""

import click
import pytest
from click.testing import CliRunner

from dra.cli.kubectl.client_flags import client_options


@click.command()
@client_options
def command(cluster_flags):
    click.echo(f"{cluster_flags.headers} {cluster_flags.request_timeout}")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param([], "() None", id="none"),
        pytest.param(
            ["--as=ann", "--as-group=a", "--as-group=b"],
            "(('Impersonate-User', 'ann'), ('Impersonate-Group', 'a'), ('Impersonate-Group', 'b')) None",
            id="impersonation",
        ),
        pytest.param(["--request-timeout=1m30s"], "() 90.0", id="timeout"),
        pytest.param(["--request-timeout=0"], "() None", id="no-timeout-of-its-own"),
    ],
)
def test_flags_become_headers_and_a_limit(arguments, shown):
    assert CliRunner().invoke(command, arguments).output.strip() == shown


def test_groups_without_a_user_are_refused():
    refused = CliRunner().invoke(command, ["--as-group=a"])
    assert (refused.exit_code, "--as-group requires --as" in refused.stderr) == (2, True)
