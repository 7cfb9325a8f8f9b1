"""No text of ours names a file that a user of the wheel or of the chart does not have."""

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from dra.cli.manifests.components import COMPONENTS
from dra.engine.messages.documentation import TREE_URL
from tests.sources import ROOT, modules, texts
from tests.violations import assert_none

WRITERS = {
    "dra/cli/crd_manifests.py",
    "dra/cli/size_policies.py",
    "dra/cli/translation_policies.py",
    "dra/cli/kubectl/install/selection.py",  # paths in the data of the package
}
"""Modules whose paths are not told to users."""

OF_WRITERS = "dra/cli/reference/", "dra/cli/manifests/"
"""Folders that write docs/, and that print and write these very files."""

PATH_OF_THE_TREE = re.compile(r"(?<![/\w.])(?:deploy|docs|examples|crds)/\w")


def told_paths(sources):
    """Yield the texts that name a file of the tree, with their modules."""
    for path, source in sources:
        name = str(path)
        if PATH_OF_THE_TREE.search(source) and name not in WRITERS and not name.startswith(OF_WRITERS):
            lines = (text for text in texts(ast.parse(source)) if "\n" not in text)
            yield from (f"{name}: {text}" for text in lines if PATH_OF_THE_TREE.search(text))


def test_the_texts_of_each_module_name_no_file_of_the_tree():
    assert_none(told_paths(modules()))


def test_each_text_that_names_a_file_of_the_tree_is_listed():
    planted = '"""See docs/a.md."""\nA = "see docs/index.md"\nB = "apply crds/claim.yaml"'
    sources = [(Path("dra/a.py"), planted), (Path("dra/cli/manifests/b.py"), planted), (Path("dra/c.py"), planted)]
    assert list(told_paths(sources)) == [
        f"dra/{name}.py: {text}" for name in "ac" for text in ("see docs/index.md", "apply crds/claim.yaml")
    ]


def texts_of(value):
    """Yield all strings of a value that JSON can hold."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_of(each)


PRINTED = sorted({each.path for each in COMPONENTS if each.is_file})


def shown_paths(texts_by_file):
    """Yield the texts of files that name a file of the tree."""
    for path, shown in texts_by_file:
        yield from (f"{path}: {text}" for text in shown if PATH_OF_THE_TREE.search(text))


def test_no_printed_file_names_a_file_of_the_tree():
    assert_none(shown_paths((path, (ROOT / path).read_text().splitlines()) for path in PRINTED))


APPLIED = sorted(
    {
        path
        for each in COMPONENTS
        for path in each.files()
        if path.endswith(".yaml") and "kustomization" not in path and "/templates/" not in path
    }
)


def shown_by(text):
    """Return what users see of an applied file: comments stay behind, refusals and configurations do not."""
    if not PATH_OF_THE_TREE.search(text):
        return []
    return list(texts_of(list(yaml.safe_load_all(text)))) if "\napiVersion: " in f"\n{text}" else [text]


def test_no_applied_object_names_a_file_of_the_tree():
    assert_none(shown_paths((path, shown_by((ROOT / path).read_text())) for path in APPLIED))


def test_each_applied_object_that_names_a_file_of_the_tree_is_listed():
    planted = "# see docs/a.md\napiVersion: v1\nmessage: see docs/b.md\n"
    assert list(shown_paths([("a.yaml", shown_by(planted)), ("b.yaml", shown_by(planted))])) == [
        "a.yaml: see docs/b.md",
        "b.yaml: see docs/b.md",
    ]


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
    named = {page for _, source in modules() for page in re.findall(r"page_url\([\"']([^\"']+)[\"']\)", source)}
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
