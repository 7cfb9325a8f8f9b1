"""No text of ours sends anybody to a command that does not exist."""

import ast
from pathlib import Path

import pytest

from dra.engine.messages.remedies import WeighedChoice, changing_commands
from tests.commands import unknown_commands

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for package in ("dra", "localplane", "controller", "kubeletplugin")
    for path in (ROOT / package).rglob("*.py")
    if path.stem != "meanings"
    and not path.stem.endswith(
        "_guidance"
    )  # Markdown, whose commands stand in `marks`: tests/dra/engine/test_meanings.py
)

CHANGING = sorted(
    path for package in ("dra", "localplane", "controller", "kubeletplugin") for path in (ROOT / package).rglob("*.py")
)


def texts(tree):
    """Every string of a module but its docstrings."""
    told = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_texts_of_a_module_name_only_commands_that_exist(path):
    assert [each for text in texts(ast.parse(path.read_text())) for each in unknown_commands(text)] == []


def pasted(tree):
    """The arguments of `SafeCommand`, and the examples of ``--help``, which shows what a user is about to type."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    safe = (call for call in calls if getattr(call.func, "id", "") == "SafeCommand")
    shown = (node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    examples = (node for node in shown if getattr(node.target, "id", "") == "EXAMPLES")
    return {id(each) for found in (*safe, *examples) for each in ast.walk(found)}


def told_to_change(tree):
    """The commands in texts that change something and are no `SafeCommand`."""
    safe, undocumented = pasted(tree), set(texts(tree))
    for node in ast.walk(tree):
        if id(node) not in safe and isinstance(node, ast.Constant) and node.value in undocumented:
            yield from changing_commands(node.value)


@pytest.mark.parametrize("path", CHANGING, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_but_a_paste_has_a_command_that_changes_anything(path):
    assert list(told_to_change(ast.parse(path.read_text()))) == []


def test_a_planted_command_is_found():
    planted = 'TEXT = "is kept for node {node}. If it is off: kubectl delete node {node}"'
    assert list(told_to_change(ast.parse(planted))) == ["kubectl delete node {node}"]
    assert list(told_to_change(ast.parse(f"SafeCommand({planted.partition('= ')[2]})"))) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("See: kubectl get pods -n ml", [], id="reading"),
        pytest.param("kubectl dra explain claim c", [], id="explaining"),
        pytest.param("kubectl dra release --help", [], id="help"),
        pytest.param("kubectl dra downgrade", [], id="the-plan-of-a-downgrade"),
        pytest.param("kubectl dra downgrade --apply", ["kubectl dra downgrade --apply"], id="a-downgrade"),
        pytest.param("kubectl dra release claim c", ["kubectl dra release claim c"], id="releasing"),
        pytest.param("kubectl get pods; kubectl drain n1", ["kubectl drain n1"], id="the-second-of-two"),
        pytest.param("kubectl rollout restart deployment d", ["kubectl rollout restart deployment d"], id="a-restart"),
        pytest.param("kubectl auth reconcile -f x", ["kubectl auth reconcile -f x"], id="rights"),
    ],
)
def test_commands_that_change_something_are_told_from_those_that_read(text, found):
    assert changing_commands(text) == found


def test_a_decision_is_never_a_command():
    with pytest.raises(ValueError, match="kubectl delete node n1"):
        WeighedChoice("if it is off: kubectl delete node n1")


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        pytest.param("See: kubectl get pods -n ml", [], id="kubectl"),
        pytest.param("run kubectl dra preflight", [], id="our-plugin"),
        pytest.param("run kubectl dra guess", ["kubectl dra guess"], id="a-command-that-our-plugin-does-not-have"),
        pytest.param("kubectl auth can-i get jobs", [], id="kubectl-with-two-verbs"),
        pytest.param("kubectl fix claim", ["kubectl fix claim"], id="no-such-verb"),
        pytest.param("start dra-reserve controller", [], id="ours"),
        pytest.param("start dra-reserve node", ["dra-reserve node"], id="not-ours-yet"),
        pytest.param("start this controller with --mode alongside", [], id="an-option-of-ours"),
        pytest.param("start this controller with --fast", ["--fast"], id="no-such-option"),
    ],
)
def test_commands_in_texts_are_recognised(text, unknown):
    assert unknown_commands(text) == unknown
