"""``python -m tests.shape [COMMIT…]``: print figures of the shape of `controller`, of commits and of this tree.

- A *constructor* is an ``__init__``, or the fields of a dataclass or a struct, of which only those without a default
  count as parameters. Parameters are counted without ``self``, lines below the ``def``.
- A parameter is *callable* if its annotation has ``Callable`` or a Protocol with ``__call__``; the figure "by any name"
  adds aliases of such types, and fields of dataclasses and structs.
- A file *decides* where `tests.shell_decisions` finds a condition on a field of a Kubernetes object.
- Lines are those that are not blank, of tracked files.
"""

import argparse
import ast
import io
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.shell_decisions import decisions

ROOT: Final = Path(__file__).parents[1]
THIS_TREE: Final = "this tree"
SHELL: Final = "controller"
PRODUCT: Final = ("dra/", f"{SHELL}/")
LAYERS: Final = (SHELL, "dra/engine", "dra/kube")
MANY: Final = 5
"""Parameters of a constructor that need no explanation."""

Sources = Mapping[str, str]
"""Python files by path."""

_Functions = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Constructor:
    """A constructor with the annotations of its parameters."""

    annotations: tuple[str, ...]
    parameters: int
    """Number of parameters that a caller must think of."""
    lines: int | None = None
    """Lines of an ``__init__``; None where fields are the parameters."""


@dataclass(slots=True)
class Shape:
    """The figures of one tree."""

    figures: dict[str, int] = field(default_factory=dict)
    deciding: Counter[str] = field(default_factory=Counter)
    """Decisions by file."""


def shape(sources: Sources) -> Shape:
    """Measure a tree."""
    trees = {path: ast.parse(text) for path, text in sources.items() if path.startswith(PRODUCT)}
    shell = [tree for path, tree in trees.items() if path.startswith(f"{SHELL}/")]
    constructors = [found for tree in shell for found in _constructors(tree)]
    written = [found for found in constructors if found.lines is not None]
    protocols = {"Callable", *_callable_protocols(trees.values())}
    names = _with_aliases(protocols, trees.values())
    deciding = Counter({path: len(decisions(text)) for path, text in sources.items() if path.startswith(f"{SHELL}/")})
    deciding = +deciding
    lines = {
        layer: sum(_lines(text) for path, text in sources.items() if path.startswith(f"{layer}/")) for layer in LAYERS
    }
    return Shape(
        {
            "callable parameters of constructors": _callables(written, protocols),
            "… by any name": _callables(constructors, names),
            "lambdas": sum(isinstance(node, ast.Lambda) for tree in shell for node in ast.walk(tree)),
            f"constructors with more than {MANY} parameters": sum(c.parameters > MANY for c in constructors),
            "lines of the longest constructor": max((found.lines or 0 for found in written), default=0),
            "files that decide": len(deciding),
            "decisions in these files": deciding.total(),
            **{f"lines of {layer}": count for layer, count in lines.items()},
            "lines of these three": sum(lines.values()),
            "lines of all Python": sum(map(_lines, sources.values())),
        },
        deciding,
    )


def _constructors(tree: ast.Module) -> Iterator[Constructor]:
    for node in ast.walk(tree):
        if isinstance(node, _Functions) and node.name == "__init__":
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs][1:]
            annotations = tuple(ast.unparse(each.annotation) if each.annotation else "" for each in parameters)
            yield Constructor(annotations, len(parameters), lines=(node.end_lineno or node.lineno) - node.lineno)
        elif isinstance(node, ast.ClassDef) and _has_fields(node):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            annotations = tuple(ast.unparse(each.annotation) for each in fields)
            yield Constructor(annotations, sum(each.value is None for each in fields))


def _has_fields(node: ast.ClassDef) -> bool:
    """Whether the fields of a class are the parameters of its constructor."""
    return any("dataclass" in ast.unparse(each) for each in node.decorator_list) or any(
        ast.unparse(base).endswith("Struct") for base in node.bases
    )


def _callables(constructors: Iterable[Constructor], names: set[str]) -> int:
    return sum(not names.isdisjoint(_words(text)) for found in constructors for text in found.annotations)


def _callable_protocols(trees: Iterable[ast.Module]) -> Iterator[str]:
    for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        methods = {each.name for each in node.body if isinstance(each, _Functions)}
        if "__call__" in methods and any("Protocol" in ast.unparse(base) for base in node.bases):
            yield node.name


def _with_aliases(names: set[str], trees: Iterable[ast.Module]) -> set[str]:
    """Return the names with those of ``X: TypeAlias = …`` that are made of them."""
    aliases = {
        node.target.id: _words(ast.unparse(node.value))
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
        if ast.unparse(node.annotation) == "TypeAlias"
    }
    known = set(names)
    while added := {alias for alias, words in aliases.items() if not known.isdisjoint(words)} - known:
        known |= added
    return known


def _words(annotation: str) -> set[str]:
    """Return the names in an annotation, which may be quoted."""
    return {node.id for node in ast.walk(ast.parse(annotation.strip("'\"") or "None")) if isinstance(node, ast.Name)}


def _lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def sources_of(commit: str) -> Sources:
    """Return the tracked Python files of a commit, or of this tree."""
    if commit == THIS_TREE:
        listed = _git("ls-files", "-z", "--", "*.py").decode().split("\0")
        paths = (ROOT / name for name in filter(None, listed))
        return {str(path.relative_to(ROOT)): path.read_text() for path in paths if path.is_file()}
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "--", "*.py"))) as archive:
        files = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {name: content.read().decode() for name, content in files.items() if content is not None}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout  # noqa: S607


def table(shapes: Mapping[str, Shape]) -> str:
    """Return the figures of several trees side by side, then the files that decide."""
    rows = [(name, *(each.figures[name] for each in shapes.values())) for name in next(iter(shapes.values())).figures]
    files = sorted({path for each in shapes.values() for path in each.deciding})
    rows += [(path, *(each.deciding[path] for each in shapes.values())) for path in files]
    head = " ".join(f"{name:>12}" for name in shapes)
    lines = (f"{name:<45} " + " ".join(f"{figure:>12}" for figure in figures) for name, *figures in rows)
    return "\n".join((f"{'':<45} {head}", *lines))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.shape", description=__doc__)
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="trees to measure beside this one, oldest first")
    commits = [*parser.parse_args().commits, THIS_TREE]
    print(table({commit: shape(sources_of(commit)) for commit in commits}))


if __name__ == "__main__":
    main()
