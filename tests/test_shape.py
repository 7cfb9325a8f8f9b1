"""The figures of `tests.shape` are counted as its head says."""

import pytest

from tests.shape import Shape, shape, table
from tests.violations import for_each_case

CALLABLES = "callable parameters of constructors"
BY_ANY_NAME = "… by any name"
LAMBDAS = "lambdas"
MANY = "constructors with more than 5 parameters"
LONGEST = "lines of the longest constructor"


@for_each_case(
    [
        pytest.param("class A:\n  def __init__(self, f: Callable[[], int]): ...", {CALLABLES: 1}, id="callable"),
        pytest.param("class A:\n  def __init__(self, f: 'Callable[[], int]'): ...", {CALLABLES: 1}, id="quoted"),
        pytest.param("class A:\n  def run(self, f: Callable[[], int]): ...", {}, id="no-constructor"),
        pytest.param(
            "class F(Protocol):\n  def __call__(self): ...\nclass A:\n  def __init__(self, f: F | None): ...",
            {CALLABLES: 1},
            id="protocol",
        ),
        pytest.param(
            "F: TypeAlias = Callable[[], int]\nclass A:\n  def __init__(self, f: F): ...", {BY_ANY_NAME: 1}, id="alias"
        ),
        pytest.param("@dataclass\nclass A:\n  f: Callable[[], int]", {BY_ANY_NAME: 1}, id="field"),
        pytest.param("a = lambda: lambda: 1", {LAMBDAS: 2}, id="lambdas"),
        pytest.param("class A:\n  def __init__(self, a, b, c, *, d, e, f): ...", {MANY: 1}, id="many"),
        pytest.param("class A:\n  def __init__(self, a, b, c, *, d, e): ...", {}, id="enough"),
        pytest.param("class A(Struct):\n" + "".join(f"  a{n}: int\n" for n in range(6)), {MANY: 1}, id="many-fields"),
        pytest.param("class A(Struct):\n" + "".join(f"  a{n}: int = 0\n" for n in range(6)), {}, id="defaults"),
        pytest.param("class A:\n  def __init__(self):\n    a\n    b\n    c", {LONGEST: 3}, id="longest"),
    ]
)
def test_figures_of_a_module(source, figures):
    counted = shape({"controller/a.py": source, "dra/engine/b.py": source}).figures
    known = {CALLABLES: 0, BY_ANY_NAME: figures.get(CALLABLES, 0), LAMBDAS: 0, MANY: 0} | figures
    assert {name: counted[name] for name in known} == known


def test_lines_that_are_not_blank_are_counted_by_layer():
    counted = shape({"controller/a.py": "a\n\nb\n", "dra/kube/b.py": "c\n", "tests/c.py": "d\n \n"}).figures
    named = [counted[f"lines of {name}"] for name in ("controller", "dra/kube", "these three", "all Python")]
    assert named == [2, 1, 3, 4]


def test_trees_are_compared_side_by_side():
    source = "class A:\n  def f(self, pod):\n    if pod.terminal: ..."
    shapes = {"older": shape({"controller/a.py": source}), "newer": Shape(dict.fromkeys(shape({}).figures, 0))}
    printed = [line.split() for line in table(shapes).splitlines()]
    assert ["older", "newer"] in printed
    assert ["files", "that", "decide", "1", "0"] in printed
    assert ["controller/a.py", "1", "0"] in printed
