"""What kubectl offers after ``kubectl dra`` and a tab."""

import pytest

from dra.cli.kubectl.completion import FILES, NO_FILES, candidates
from dra.cli.kubectl.main import COMMANDS


def names(words):
    lines, directive = candidates(words)
    return [line.partition("\t")[0] for line in lines], directive


def test_all_commands_are_offered():
    found, directive = names([""])
    assert (set(found), directive) == (set(COMMANDS), NO_FILES)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(["ex"], ["explain"], id="a-command-begun"),
        pytest.param(["get", ""], ["claims", "devices", "reservations"], id="kinds"),
        pytest.param(["usage", "--by", "n"], ["namespace", "node"], id="values-of-an-option"),
        pytest.param(["audit", "--fail"], ["--fail-on"], id="an-option"),
        pytest.param(["wait", "claim", "c", "--for", ""], ["released", "allocated"], id="states"),
    ],
)
def test_what_can_follow_is_offered(words, offered):
    assert names(words) == (offered, NO_FILES)


def test_for_a_bundle_files_are_offered():
    assert names(["audit", "--from", ""]) == ([], FILES)
