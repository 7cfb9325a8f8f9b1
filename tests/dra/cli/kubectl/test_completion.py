"""What kubectl offers after ``kubectl dra`` and a tab."""

import pytest

from dra.cli.kubectl.completion import DIRECTIVE_DEFAULT, DIRECTIVE_NO_FILE_COMP, completions
from dra.cli.kubectl.main import COMMANDS


def names(words):
    lines, directive = completions(words)
    return [line.partition("\t")[0] for line in lines], directive


def test_all_commands_are_offered():
    found, directive = names([""])
    assert (set(found), directive) == (set(COMMANDS), DIRECTIVE_NO_FILE_COMP)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(["ex"], ["explain"], id="a-command-begun"),
        pytest.param(["get", ""], ["claims", "devices", "pods", "nodes", "reservations", "migrations"], id="kinds"),
        pytest.param(["tree", ""], ["workloads", "nodes", "reservations"], id="kinds-of-trees"),
        pytest.param(["usage", "--by", "n"], ["namespace", "node"], id="values-of-an-option"),
        pytest.param(["audit", "--fail"], ["--fail-on"], id="an-option"),
        pytest.param(["wait", "claim", "c", "--for", ""], ["released", "allocated", "available", "ended"], id="states"),
    ],
)
def test_what_can_follow_is_offered(words, offered):
    assert names(words) == (offered, DIRECTIVE_NO_FILE_COMP)


def test_for_a_bundle_files_are_offered():
    assert names(["audit", "--from", ""]) == ([], DIRECTIVE_DEFAULT)


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    "words",
    [["explain", "claim", ""], ["release", "claim", "t"], ["explain", "device", ""], ["explain", "calim", ""]],
    ids=" ".join,
)
def test_without_a_cluster_no_names_are_offered_and_nothing_fails(words):
    assert names(words) == ([], DIRECTIVE_NO_FILE_COMP)


@pytest.mark.parametrize(
    ("words", "asked", "offered"),
    [
        pytest.param(["explain", "claim", "t"], "claim", ["train", "test"], id="claims"),
        pytest.param(["why", "po", "tr"], "pod", ["train"], id="pods-by-their-short-name"),
        pytest.param(["wait", "-n", "ml", "claim", ""], "claim", ["train", "test", "other"], id="after-an-option"),
        pytest.param(["get", "claims", "tra"], "claim", ["train"], id="of-a-list"),
    ],
)
def test_names_that_a_cluster_has_are_offered(monkeypatch, words, asked, offered):
    kinds = []

    def known(kind, options):
        kinds.append((kind, options.get("namespace")))
        return ["train", "test", "other"]

    monkeypatch.setattr("dra.cli.kubectl.resource_args.list_names", known)
    assert names(words)[0] == offered
    assert kinds == ([(asked, "ml" if "-n" in words else None)] if asked else [])
