"""Dead code of the product: functions, classes, constants and methods that nothing uses, or only tests and benches.

Code is alive if it runs on import, if a decorator registers it, or if living code names it. A method has its bare name
only, since types are not looked at: one living `x.run` keeps every method `run`.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.violations import for_each_case

ROOT = Path(__file__).parents[1]
PRODUCT = "dra", "localplane", "controller", "kubeletplugin"
CALLERS = *PRODUCT, "release"

INERT = {
    *("asynccontextmanager", "cache", "cached_property", "classmethod", "contextmanager", "dataclass", "final"),
    *("lru_cache", "override", "property", "runtime_checkable", "staticmethod", "total_ordering"),
}
"""Decorators that register nothing; any other one (a click command, a pydantic validator) keeps its function alive."""

DATA = "abc.", "enum.", "msgspec.", "pydantic.", "typing."
"""Foreign base classes that call no method of theirs by name; of any other one each method may be a hook."""

ALLOWED: dict[str, str] = {
    ".main": "click calls this hook of a base class of ours",
    ".invoke": "click calls this hook of a base class of ours",
    ".lose_sandbox": "fault injection of the local plane, for simulations",
    ".remove_component": "tests replace a component of the local plane: kube-scheduler runs instead of the scheduler",
    "dra.cli.reference.problems.updated_page": "a test compares the page with this text",
    "dra.kube.credentials.StaticCredentials": "access of tests and benches to servers of their own",
    "dra.wire.generate.stale_files": "a test compares the generated modules with their sources",
    "dra.wire.grpc_health.HealthClient": "the client of a service that we serve: tests call it",
    **dict.fromkeys(
        (f".{name}" for name in ("_colon", "_end", "_first_element", "_first_key", "_more", "_value")),
        "localplane.schemas.json_syntax: the scanner builds the names of its states",
    ),
}
"""Living names that no code of the product spells, with the reason."""

Names = Mapping[str, str]
Functions = ast.FunctionDef | ast.AsyncFunctionDef


def last_name(node: ast.expr) -> str:
    """Return the name that an expression such as ``a.b.c(…)`` or ``c[T]`` ends with."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return last_name(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def dotted(node: ast.expr, names: Names) -> str:
    """Return the full name of a chain of attributes; empty if the chain begins with a local variable or a call."""
    match node:
        case ast.Name(id=name):
            return names.get(name, "")
        case ast.Attribute(value=inner, attr=name) if prefix := dotted(inner, names):
            return f"{prefix}.{name}"
    return ""


def definitions(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield what a module or a class defines by name, without what a decorator registers."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if {last_name(each) for each in node.decorator_list} <= INERT:
                    yield name, node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node


def methods(node: ast.ClassDef, names: Names) -> dict[ast.AST, str]:
    """Return the methods that only calls by name keep alive: neither special methods nor hooks of a foreign base."""
    bases = (dotted(each.value if isinstance(each, ast.Subscript) else each, names) for each in node.bases)
    if any(base and not base.startswith((*PRODUCT, *DATA)) for base in bases):
        return {}
    found = definitions(node.body)
    return {each: f".{name}" for name, each in found if isinstance(each, Functions) and not name.startswith("__")}


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a module imports anywhere in its code, with their full names."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=source, names=found):
                yield from ((each.asname or each.name, f"{source}.{each.name}") for each in found)
            case ast.Import(names=found):
                pairs = ((each.asname, each.name) if each.asname else (each.name.split(".")[0],) * 2 for each in found)
                yield from pairs


def uses(node: ast.AST, names: Names) -> Iterator[str]:
    """Yield what code names: full names, and attributes and quoted identifiers as ``.name``."""
    for each in ast.walk(node):
        match each:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return
            case ast.Name(id=name, ctx=ast.Load()):
                yield names.get(name, "")
            case ast.Attribute(attr=name, ctx=ast.Load()):
                yield from (dotted(each, names), f".{name}")
            case ast.Constant(value=str(name)) if name.isidentifier():
                yield from (names.get(name, ""), f".{name}")


def dead(modules: Iterable[tuple[str, ast.Module]]) -> list[str]:
    """Return the definitions of the product that cannot be reached from code that runs on import.

    Keeps no module: all of them take 250 MiB.
    """
    used: dict[str, set[str]] = defaultdict(set)
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules:
        imported = dict(imports(tree))
        own = {node: f"{module}.{name}" for name, node in definitions(tree.body) if not name.startswith("__")}
        names = imported | {full.rpartition(".")[2]: full for full in own.values()}
        for name, full in imported.items():
            used[f"{module}.{name}"].add(full)
        for node in tree.body:
            key = own.get(node, "") if module.startswith(PRODUCT) and not module.endswith("_pb2") else ""
            parts = methods(node, names) if key and isinstance(node, ast.ClassDef) else {}
            if not isinstance(node, ast.Import | ast.ImportFrom):
                for each in ast.iter_child_nodes(node) if parts else (node,):
                    used[parts.get(each, key)].update(uses(each, names))
            for name, line in {key: node.lineno, **{part: each.lineno for each, part in parts.items()}}.items():
                places[name].append(f"{module}:{line} {name.removeprefix(f'{module}.')}")
    living, found = {""}, {"", *ALLOWED}
    while found:
        living |= found
        found = {each for name in found for each in used[name]} - living
    return sorted(place for name in places.keys() - living for place in places[name])


def parsed(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules below folders of the tree with their full names."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), ast.parse(path.read_text())


def test_product_code_uses_all_of_the_product():
    assert dead(parsed(*CALLERS)) == []


@for_each_case(
    [
        pytest.param("def f(): ...\nf()", [], id="called"),
        pytest.param("def f(): ...", ["f"], id="never-called"),
        pytest.param("def f(): g()\ndef g(): f()", ["f", "g"], id="only-each-other"),
        pytest.param("import click\n@click.command()\ndef f(): ...", [], id="registered"),
        pytest.param("from functools import cache\n@cache\ndef f(): ...", ["f"], id="decorated"),
        pytest.param("LIMIT = 1", ["LIMIT"], id="constant"),
        pytest.param("class A:\n  def f(self): ...\n  def g(self): ...\nA().f()", [".g"], id="method"),
        pytest.param("import click\nclass A(click.Group):\n  def invoke(self): ...\nA()", [], id="hook"),
    ]
)
def test_planted_dead_code_is_found(planted, found):
    assert [each.split()[1] for each in dead([("dra.planted", ast.parse(planted))])] == found
