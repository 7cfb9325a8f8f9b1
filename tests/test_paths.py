"""No text of ours names a file that a user of the wheel or of the chart does not have."""

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from dra.cli.manifests.components import COMPONENTS
from dra.engine.messages.documentation import TREE_URL
from tests.test_commands import texts

ROOT = Path(__file__).parents[1]
WRITERS = {
    "dra/cli/crd_manifests.py",
    "dra/cli/size_policies.py",
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


def texts_of(value):
    """Yield all strings of a value that JSON can hold."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_of(each)


PRINTED = sorted({each.path for each in COMPONENTS if each.is_file})


@pytest.mark.parametrize("path", PRINTED)
def test_a_printed_file_names_no_file_of_the_tree(path):
    assert PATH_OF_THE_TREE.findall((ROOT / path).read_text()) == []


APPLIED = sorted(
    {
        path
        for each in COMPONENTS
        for path in each.files()
        if path.endswith(".yaml") and "kustomization" not in path and "/templates/" not in path
    }
)


@pytest.mark.parametrize("path", APPLIED)
def test_an_applied_object_names_no_file_of_the_tree(path):
    """Comments stay behind, refusals of policies and configurations do not."""
    text = (ROOT / path).read_text()
    shown = texts_of(list(yaml.safe_load_all(text))) if "\napiVersion: " in f"\n{text}" else [text]
    assert [each for each in shown if PATH_OF_THE_TREE.search(each)] == []


CHART = ROOT / "deploy/helm/dra-reserve"


@pytest.mark.parametrize("name", ["values.yaml", "templates/NOTES.txt"])
def test_the_chart_shows_no_file_of_the_tree(name):
    assert PATH_OF_THE_TREE.findall((CHART / name).read_text()) == []


def test_refusals_of_the_chart_name_no_file_of_the_tree():
    schema = texts_of(json.loads((CHART / "values.schema.json").read_text()))
    templates = [path.read_text() for path in (CHART / "templates").iterdir()]
    refusals = [text for template in templates for text in re.findall(r"(?:fail|required) .*", template)]
    assert [text for text in (*schema, *refusals) if PATH_OF_THE_TREE.search(text)] == []


def test_pages_that_texts_name_exist():
    named = {
        page
        for path in (*SOURCES, *(ROOT / "dra/cli/kubectl/install").rglob("*.py"))
        for page in re.findall(r"page_url\([\"']([^\"']+)[\"']\)", path.read_text())
    }
    named |= {
        page
        for path in (ROOT / "deploy").rglob("*")
        if path.is_file()
        for page in re.findall(rf"{re.escape(TREE_URL)}/docs/([\w/.-]+\.md)", path.read_text(errors="replace"))
    }
    assert len(named) > 3
    assert [page for page in named if not (ROOT / "docs" / page).exists()] == []


def test_addresses_begin_as_the_project_says():
    assert f'"{TREE_URL.removesuffix("/blob/main")}"' in (ROOT / "pyproject.toml").read_text()
