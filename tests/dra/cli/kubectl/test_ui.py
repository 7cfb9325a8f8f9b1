"""The options of ``kubectl dra ui`` that name a history, before anything is served."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.main import main


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--prometheus", "prometheus:9090"], "the URL is not of the form", id="no-scheme"),
        pytest.param(["--prometheus", "http://p", "--prometheus-label", 'a"}=x'], "no name of a label", id="a-label"),
        pytest.param(["--prometheus", "http://p", "--prometheus-label", "cluster"], "cluster=eu-1", id="no-value"),
        pytest.param(
            ["--prometheus", "http://p", "--prometheus-token-file", __file__],
            "over https:// alone",
            id="a-plain-token",
        ),
        pytest.param(["--prometheus", "http://p", "--from", __file__], "a bundle is of one moment", id="a-bundle"),
    ],
)
def test_a_history_that_cannot_be_is_refused_at_once(arguments, text):
    done = CliRunner().invoke(main, ["ui", "--no-browser", *arguments])
    assert text in done.output
    assert done.exit_code == 2
