"""No file gets more variables that are named ``found`` or ``each`` than it had."""

import pytest

from tests.variable_names import ROOT, counted, recorded, vague_names
from tests.violations import for_each_case


def test_no_file_has_more_vague_names_than_recorded():
    before = recorded()
    grown = {path: number for path, number in counted().items() if number > before.get(path, 0)}
    lines = [
        f"{path}:{line}: a variable of this scope is named {name}: name what it holds"
        for path in grown
        for line, name in vague_names((ROOT / path).read_text())
    ]
    assert not grown, "\n".join(
        [f"{path}: {number}, recorded {before.get(path, 0)}" for path, number in grown.items()] + lines
    )


@for_each_case(
    [
        pytest.param("found = read()", ["found"], id="assignment"),
        pytest.param("if found := read(): pass", ["found"], id="in-a-condition"),
        pytest.param("for each in pods: pass", ["each"], id="loop"),
        pytest.param("names = [each.name for each in pods]", ["each"], id="comprehension"),
        pytest.param("first, (found, *each) = pods", ["each", "found"], id="of-several"),
        pytest.param("def judge(found, *, each): pass", ["each", "found"], id="parameters"),
        pytest.param("key = lambda each: each.name", ["each"], id="lambda"),
        pytest.param("with lock() as found: pass", ["found"], id="context"),
        pytest.param("match pod:\n case [each, *found]: pass", ["each", "found"], id="pattern"),
        pytest.param("report.found = each.pods", [], id="uses-and-attributes"),
        pytest.param('"""Each of these is found."""\nfor pod in pods: pass', [], id="words"),
    ]
)
def test_bindings_are_counted(source, names):
    assert sorted(name for _, name in vague_names(source)) == names
