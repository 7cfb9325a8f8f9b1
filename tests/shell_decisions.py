"""Find where the shells decide by themselves: conditions on fields of Kubernetes objects, which belong to `dra.engine`.

A condition is the test of an `if`, a `while`, a ternary, a comprehension or a `case`, the subject or a class pattern
of a `match`, an operand of `and`, `or` and `not`, or a comparison. A condition depends on a field if an attribute in it
has the name of a field or a property of a kind in `dra.model` or `dra.api`. Types are not looked at: a name is enough,
also where another type has it. Not counted are what a request needs (`REQUEST_FIELDS`), attributes of constants, of
caught errors and of `self` (unless a path leads on through metadata, spec or status), and the answer of a function.

A local variable that is assigned a field counts as that field.
"""

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import Any, Final, get_args, get_type_hints

import msgspec
import pydantic

import dra.api
import dra.model

SHELLS: Final = ("controller", "dra/requests")
"""The packages whose decisions belong elsewhere."""

REQUEST_FIELDS: Final = frozenset({"namespace", "name", "uid", "resource_version", "key", "version", "metadata"})
"""Fields that a request needs: which object, and which version of the object."""

_PARTS: Final = frozenset({"metadata", "spec", "status"})
_FUNCTIONS: Final = ast.FunctionDef | ast.AsyncFunctionDef
_Chain = tuple[ast.expr, tuple[str, ...]]


class KubernetesNames(msgspec.Struct, frozen=True):
    """The names by which code reaches into Kubernetes objects."""

    kinds: frozenset[str]
    """Classes: kinds, and whatever lies in their fields."""
    fields: frozenset[str]
    """Fields and properties of these classes."""


@cache
def kubernetes_names() -> KubernetesNames:
    """Return the classes with metadata and the classes in their fields, and the names of all fields and properties."""
    modules = [
        importlib.import_module(found.name)
        for package in (dra.model, dra.api)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    left = [
        value
        for module in modules
        for value in vars(module).values()
        if _is_record(value) and "metadata" in _hints(value)
    ]
    known: set[type] = set()
    while left:
        record = left.pop()
        if record not in known:
            known.add(record)
            left += (inner for hint in _hints(record).values() for inner in _records_of(hint))
    properties = (
        name
        for record in known
        for base in record.__mro__
        if _is_record(base)
        for name, value in vars(base).items()
        if isinstance(value, property | cached_property)
    )
    fields = {*properties, *(name for record in known for name in _hints(record) if not name.startswith("_"))}
    return KubernetesNames(frozenset(record.__name__ for record in known), frozenset(fields - REQUEST_FIELDS))


def decisions(source: str) -> list[str]:
    """Return the conditions of a module on fields of Kubernetes objects, each as ``function: expression``, in order."""
    finder = _Finder(kubernetes_names())
    finder.visit(ast.parse(source))
    return list(dict.fromkeys(finder.found))


class _Finder(ast.NodeVisitor):
    """Walks a module; `found` has the decisions."""

    def __init__(self, names: KubernetesNames) -> None:
        self.found: list[str] = []
        self._names = names
        self._scope: list[str] = []
        self._aliases: dict[str, ast.expr] = {}
        self._errors: set[str] = set()

    def generic_visit(self, node: ast.AST) -> None:
        for condition in _conditions(node):
            for expression in self._fields(condition):
                self.found.append(f"{'.'.join(self._scope) or 'module'}: {ast.unparse(expression)}")
        for kind, fields in _patterns(node):
            if kind in self._names.kinds:
                self.found += (f"{'.'.join(self._scope)}: {kind}.{name}" for name in fields & self._names.fields)
        if not isinstance(node, ast.ClassDef | _FUNCTIONS):
            super().generic_visit(node)
            return
        outer = self._aliases, self._errors
        self._scope.append(node.name)
        if isinstance(node, _FUNCTIONS):
            self._errors = {each.name for each in ast.walk(node) if isinstance(each, ast.ExceptHandler) and each.name}
            self._aliases = {}
            self._aliases = {name: value for name, value in _assignments(node) if self._is_field(value)}
        super().generic_visit(node)
        self._scope.pop()
        self._aliases, self._errors = outer

    def _fields(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield the longest paths to fields in an expression."""
        if isinstance(node, ast.Name) and node.id in self._aliases:
            yield self._aliases[node.id]
        elif isinstance(node, ast.expr) and self._is_field(node):
            yield node
        else:
            for inner in ast.iter_child_nodes(node):
                yield from self._fields(inner)

    def _is_field(self, node: ast.expr) -> bool:
        root, path = _chain(node)
        if not path or not self._names.fields.intersection(path):
            return False
        if not isinstance(root, ast.Name):
            return True
        if root.id in {"self", "cls"}:
            return bool(_PARTS.intersection(path[1:-1]))
        return not root.id.lstrip("_")[:1].isupper() and root.id not in self._errors


def _conditions(node: ast.AST) -> Sequence[ast.expr]:
    """Return the expressions that a node tests."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return (test,)
        case ast.comprehension(ifs=tests) | ast.BoolOp(values=tests):
            return tests
        case ast.UnaryOp(op=ast.Not(), operand=test) | ast.Match(subject=test):
            return (test,)
        case ast.match_case(guard=ast.expr() as test):
            return (test,)
        case ast.Compare(left=left, comparators=others):
            return (left, *others)
    return ()


def _patterns(node: ast.AST) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the class of a class pattern, with the attributes that the pattern tests."""
    match node:
        case ast.MatchClass(cls=ast.Name(id=kind), kwd_attrs=names, kwd_patterns=patterns):
            tested = (
                name
                for name, pattern in zip(names, patterns, strict=True)
                if not (isinstance(pattern, ast.MatchAs) and pattern.pattern is None)
            )
            yield kind, frozenset(tested)


def _assignments(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the local variables of a function with what is assigned to each."""
    for node in ast.walk(function):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                yield from (
                    (name.id, value) for name, value in zip(names, values, strict=False) if isinstance(name, ast.Name)
                )


def _chain(node: ast.expr) -> _Chain:
    """Return what a path such as ``pod.spec.node_name`` begins with, and its attributes."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    return node, tuple(path)


def _is_record(value: object) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, msgspec.Struct | pydantic.BaseModel)
        and value not in {msgspec.Struct, pydantic.BaseModel}
    )


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _records_of(hint: Any) -> Iterator[type]:
    """Yield the records in an annotation such as ``tuple[Toleration, ...]``."""
    if _is_record(hint):
        yield hint
    for inner in get_args(hint):
        yield from _records_of(inner)
