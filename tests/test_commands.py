"""No text of ours sends anybody to a command that does not exist."""

import ast
from pathlib import Path

import pytest

from tests.commands import unknown_commands

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for package in ("dra", "controller", "kubeletplugin")
    for path in (ROOT / package).rglob("*.py")
    if path.name != "meanings.py"  # Markdown, whose commands stand in `marks`: tests/dra/engine/test_meanings.py
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
