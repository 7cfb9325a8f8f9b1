"""CONTRIBUTING.md and the page about the architecture name files, symbols and commands that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.sources import ROOT
from tests.violations import assert_none

PAGES = {"CONTRIBUTING.md": ROOT, "docs/explanation/architecture.md": ROOT / "docs/explanation"}
"""Page → folder from which its links start."""

PLACEHOLDERS = {"DRA_CRDS=FOLDER", "test_rule_NN_….py"}

SECTION = re.compile(r"(?m)^(?=##+ )")
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(
    r"[\w./*-]*\.(?:py|mjs|yaml|md|toml|sh|json|txt|proto|svg)"
    r"|(?:bench|controller|crds|deploy|docs|dra|examples|kubeletplugin|localplane|release|tests)(?:/[\w.*-]+)*/?"
)
IDENTIFIER = re.compile(r"\w+_\w+|[A-Z]\w*[a-z]\w*[A-Z]\w*")
SYMBOLS = re.compile(r"`([\w./-]+\.(?:py|mjs|yaml))`\s+\(((?:`\w+`(?:, | and )?)+)")
"""A file with names in brackets behind it: these are defined there."""


def problems(text, *, links):
    """Yield what a page names and the tree lacks, section by section."""
    for section in SECTION.split(text):
        names = [name for name in CODE.findall(section) if name not in PLACEHOLDERS]
        files = [name for name in names if FILE.fullmatch(name)]
        yield from (f"{name}: not found" for name in files if not _exists(name, files))
        for file, symbols in SYMBOLS.findall(section):
            for symbol in CODE.findall(symbols):
                if not any(symbol in _defined(path) for path in _paths(file, files)):
                    yield f"{file}: does not define {symbol}"
        words = set().union(*(_words(path) for file in files for path in _paths(file, files) if path.is_file()))
        identifiers = [name for name in names if IDENTIFIER.fullmatch(name)] if words else []
        yield from (
            f"{name}: in no file that its section names"
            for name in identifiers
            if name.removesuffix("_total") not in words and not any(path.is_dir() for path in _beside(name, files))
        )
        yield from _missing_commands(names)
    anchors = {_anchor(title) for title in re.findall(r"(?m)^#+ (.+)$", text)}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        page, _, anchor = target.partition("#")
        if "://" in target:
            continue
        if page and not (links / page).exists():
            yield f"link {target}: {page} does not exist"
        if not page and anchor not in anchors:
            yield f"link {target}: no heading of this page"


def _missing_commands(names):
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    for name in names:
        if (command := re.match(r"make ((?:[a-z][a-z-]* ?)+)", name)) is not None:
            yield from (f"make {word}: no target" for word in command[1].split() if word not in targets)
        if (module := re.search(r"python -m ([\w.]+)", name)) is not None:
            path = ROOT / module[1].replace(".", "/")
            if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists():
                yield f"python -m {module[1]}: no such module"


def _anchor(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _exists(name, files):
    return any(True for _ in _paths(name, files))


def _paths(name, files):
    """Yield the files of a name: from the root on, from `dra/engine` on, or beside another file of the section."""
    yield from ROOT.glob(name)
    yield from (path for path in _beside(name, files) if "/" in name or path.is_file())


def _beside(name, files):
    folders = {Path(other) if "." not in other else Path(other).parent for other in files}
    folders |= {folder.parent for folder in folders if "/" in str(folder)}
    for folder in sorted(folders):
        yield from ROOT.glob(str(folder / name))
        yield from (ROOT / "dra/engine").glob(str(folder / name))


@cache
def _words(path):
    return frozenset(re.findall(r"\w+", path.read_text()))


@cache
def _defined(path):
    """Return the names that a file defines at any level; the words of a file that is not Python."""
    text = path.read_text()
    if path.suffix != ".py":
        return _words(path)
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(names)


PLANTED = """# Page

## Recipe
1. `dra/engine/claims/window.py` (`need`, `refill`), `drains.py`, `decide.py`; see `CrowdWindow`, `LISTING_BATCH`.
2. `make lint fly`, `python -m dra.cli.crd_manifests`, `python -m dra.cli.crds`; [there](#recipe), [nowhere](#recipes).
3. [A page](docs/nowhere.md).
"""


def test_what_the_tree_lacks_is_listed():
    assert sorted(problems(PLANTED, links=ROOT)) == [
        "CrowdWindow: in no file that its section names",
        "dra/engine/claims/window.py: does not define refill",
        "drains.py: not found",
        "link #recipes: no heading of this page",
        "link docs/nowhere.md: docs/nowhere.md does not exist",
        "make fly: no target",
        "python -m dra.cli.crds: no such module",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_for_contributors_names_what_exists(page):
    assert_none(problems((ROOT / page).read_text(), links=PAGES[page]))


def test_the_table_of_loops_has_each_subclass_of_reconciler():
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    table = page.partition("| Loop | Key |")[2].partition("\n\n")[0]
    loops = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "controller").rglob("*.py")
        if re.search(r"(?m)^class \w+\(Reconciler\[", path.read_text())
    }
    assert set(re.findall(r"(?m)^\| `([\w/]+\.py)`", table)) == loops
