"""No text of ours sends anybody to a command that does not exist."""

import ast
import re
from pathlib import Path

import pytest

from dra.engine.messages.remedies import WeighedChoice, changing_commands
from tests.commands import unknown_commands
from tests.sources import modules, texts
from tests.violations import assert_none, for_each_case

COMMAND = re.compile(r"kubectl|dra-reserve|\bmake\b|controller with")
"""Words of a module that may tell a command: most modules have none, and need not be parsed."""


def is_explained(node):
    """Whether a statement declares reasons, whose commands stand in `marks`: test_reason_guidance.py checks them."""
    return isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "ExplainedReason" for base in node.bases)


def commands_that_do_not_exist(sources):
    """Yield what nobody can run, with the module that tells to."""
    for path, source in sources:
        if COMMAND.search(source):
            told = [text for node in ast.parse(source).body if not is_explained(node) for text in texts(node)]
            yield from (f"{path}: {command}" for text in told for command in unknown_commands(text))


def test_the_texts_of_each_module_name_only_commands_that_exist():
    assert_none(commands_that_do_not_exist(modules()))


def test_each_module_with_an_unknown_command_is_named():
    planted = {Path("dra/a.py"): 'A = "run kubectl dra guess"', Path("dra/b.py"): 'B = "", "start dra-reserve node"'}
    assert list(commands_that_do_not_exist(planted.items())) == [
        "dra/a.py: kubectl dra guess",
        "dra/b.py: dra-reserve node",
    ]


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


def pasted_changes(sources):
    """Yield each such command with its module."""
    for path, source in sources:
        if "kubectl" in source:
            yield from (f"{path}: {told}" for told in told_to_change(ast.parse(source)))


def test_no_text_but_a_paste_has_a_command_that_changes_anything():
    assert_none(pasted_changes(modules()))


def test_a_planted_command_is_found():
    planted = 'TEXT = "is kept for node {node}. If it is off: kubectl delete node {node}"'
    sources = [(Path("dra/a.py"), planted), (Path("dra/b.py"), "B = 1"), (Path("dra/c.py"), planted)]
    assert list(pasted_changes(sources)) == [
        "dra/a.py: kubectl delete node {node}",
        "dra/c.py: kubectl delete node {node}",
    ]
    assert list(told_to_change(ast.parse(f"SafeCommand({planted.partition('= ')[2]})"))) == []


@for_each_case(
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
    ]
)
def test_commands_that_change_something_are_told_from_those_that_read(text, found):
    assert changing_commands(text) == found


def test_a_decision_is_never_a_command():
    with pytest.raises(ValueError, match="kubectl delete node n1"):
        WeighedChoice("if it is off: kubectl delete node n1")


@for_each_case(
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
    ]
)
def test_commands_in_texts_are_recognised(text, unknown):
    assert unknown_commands(text) == unknown
