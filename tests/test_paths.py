"""No text of ours names a file that a user of the wheel or of the chart does not have."""

import ast
import re
from pathlib import Path

import pytest

from dra.engine.messages.documentation import TREE_URL
from tests.test_commands import texts

ROOT = Path(__file__).parents[1]
WRITERS = {
    "dra/cli/crd_manifests.py",
    "dra/cli/translation_policies.py",
    "dra/cli/kubectl/install/selection.py",  # paths in the data of the package
}
"""Modules whose paths are not told to users."""

SOURCES = sorted(
    path
    for package in ("dra", "localplane", "controller", "kubeletplugin")
    for path in (ROOT / package).rglob("*.py")
    if "dra/cli/reference/" not in str(path)  # writes docs/
    and "dra/cli/manifests/" not in str(path)  # prints and writes these very files
    and str(path.relative_to(ROOT)) not in WRITERS
)
PATH_OF_THE_TREE = re.compile(r"(?<![/\w.])(?:deploy|docs|examples|crds)/\w")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_texts_of_a_module_name_no_file_of_the_tree(path):
    undocumented = texts(ast.parse(path.read_text()))
    assert [text for text in undocumented if PATH_OF_THE_TREE.search(text) and "\n" not in text] == []


def test_pages_that_texts_name_exist():
    named = {
        page
        for path in (*SOURCES, *(ROOT / "dra/cli/kubectl/install").rglob("*.py"))
        for page in re.findall(r"page_url\([\"']([^\"']+)[\"']\)", path.read_text())
    }
    assert len(named) > 3
    assert [page for page in named if not (ROOT / "docs" / page).exists()] == []


def test_addresses_begin_as_the_project_says():
    assert f'"{TREE_URL.removesuffix("/blob/main")}"' in (ROOT / "pyproject.toml").read_text()
