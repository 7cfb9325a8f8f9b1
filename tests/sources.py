"""Sources of the product, for tests of rules that hold in each module."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = "dra", "localplane", "controller", "kubeletplugin"


def modules() -> Iterator[tuple[Path, str]]:
    """Yield the path in the tree and the source of each module of the product."""
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), path.read_text()


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module but its docstrings."""
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
