"""Mutants of a source file: for each place the text of the whole file with one small change."""

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple


class Mutant(NamedTuple):
    """A file with one change."""

    line: int
    before: str
    after: str
    text: str
    """The whole file."""


_COMPARED: Final = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: Final = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_SILENT: Final = frozenset({"_log", "log", "logger"})
"""Nobody decides by what is logged."""


def mutants(text: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of their lines."""
    tree = ast.parse(text)
    offsets = _offsets(text)
    found = []
    for node, changed in _changes(tree):
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[node.end_lineno - 1] + node.end_col_offset
        raw = text.encode()
        after = changed if isinstance(changed, str) else f"({ast.unparse(changed)})"
        mutated = raw[:start] + after.encode() + raw[end:]
        before = raw[start:end].decode()
        found.append(Mutant(node.lineno, before, after, mutated.decode()))
    return sorted(found, key=lambda mutant: mutant.line)


def _offsets(text: str) -> list[int]:
    offsets = [0]
    for line in text.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | str]]:  # noqa: C901, PLR0912 - a table
    for node in _executed(tree):
        match node:
            case ast.Compare(ops=[op]) if type(op) in _COMPARED:
                yield node, ast.Compare(node.left, [_COMPARED[type(op)]()], node.comparators)
            case ast.BoolOp():
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield node, ast.BoolOp(other, node.values)
                for number in range(len(node.values)):
                    left = node.values[:number] + node.values[number + 1 :]
                    yield node, left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
            case ast.UnaryOp(op=ast.Not()):
                yield node, node.operand
            case ast.BinOp() if type(node.op) in _COMPUTED:
                yield node, ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
            case ast.Constant(value=bool()):
                yield node, ast.Constant(not node.value)
            case ast.Constant(value=int() | float()):
                yield node, ast.Constant(node.value + 1)
            case ast.If():
                yield node.test, "False"
                yield node.test, "True"
            case ast.IfExp():
                yield node, ast.IfExp(node.test, node.orelse, node.body)
            case ast.Set(elts=elements) | ast.Tuple(elts=elements, ctx=ast.Load()) if len(elements) > 1:
                for number in range(len(elements)):
                    left = elements[:number] + elements[number + 1 :]
                    yield node, ast.Set(left) if isinstance(node, ast.Set) else ast.Tuple(left, ast.Load())
            case ast.Expr(value=ast.Call()):
                yield node, "pass"
            case ast.Call(keywords=[_, *_]) if isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
                for number in range(len(node.keywords)):
                    kept = node.keywords[:number] + node.keywords[number + 1 :]
                    yield node, ast.Call(node.func, node.args, kept)
            case ast.GeneratorExp() | ast.ListComp() | ast.SetComp() if node.generators[0].ifs:
                first = ast.comprehension(
                    node.generators[0].target, node.generators[0].iter, node.generators[0].ifs[1:], 0
                )
                yield node, type(node)(node.elt, [first, *node.generators[1:]])
            case _:
                pass


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that do something when the program runs: no annotations, decorators, texts and log calls."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or _is_typing(child):
                continue
            if isinstance(child, ast.Expr) and (isinstance(child.value, ast.Constant) or _logs(child.value)):
                continue
            yield child
            yield from _executed(child)


def _is_typing(node: ast.AST) -> bool:
    """Whether a node is of concern to type checkers alone: aliases, type variables, casts, slots."""
    if isinstance(node, ast.AnnAssign):
        return "TypeAlias" in ast.unparse(node.annotation)
    if isinstance(node, ast.Assign):
        named = ast.unparse(node.targets[0])
        return named == "__slots__" or ast.unparse(node.value).startswith("TypeVar(")
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Generic"


def _logs(node: ast.expr) -> bool:
    call = node if isinstance(node, ast.Call) else None
    return (
        call is not None
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in _SILENT
    )
