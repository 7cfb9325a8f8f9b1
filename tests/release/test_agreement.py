"""A tree is released only if all that names the version agrees."""

from dataclasses import replace
from pathlib import Path

import pytest

from release.agreement import Tree, problems, read_tree
from release.project import Project, read_project

ROOT = Path(__file__).parents[2]
PROJECT = Project(name="dra-reserve", version="1.2.3", source="https://a/b", image="r/i", charts="r/c")
READY = Tree(
    tags=frozenset({"v1.2.3", "other"}),
    uncommitted=(),
    changelog="# Changelog\n\n## 1.2.3 (2026-11-30)\n",
    chart=("1.2.3", "1.2.3"),
    image_tags=frozenset({"1.2.3"}),
)


def test_a_tree_that_agrees_is_ready():
    assert list(problems(PROJECT, READY)) == []


@pytest.mark.parametrize(
    ("change", "begins"),
    [
        pytest.param({"tags": frozenset({"v1.2.2"})}, "tag v1.2.3: is not at the commit", id="tag"),
        pytest.param({"uncommitted": ("README.md",)}, "README.md: not committed", id="uncommitted"),
        pytest.param({"changelog": "## 1.2.3 (unreleased)\n"}, "CHANGELOG.md: has no heading", id="not-dated"),
        pytest.param({"changelog": "## 1.2.30 (2026-11-30)\n"}, "CHANGELOG.md: has no heading", id="another-version"),
        pytest.param({"chart": ("1.2.3", "1.2.2")}, "Chart.yaml: version and appVersion are", id="chart"),
        pytest.param({"image_tags": frozenset({"1.2.3", "1.2.2"})}, "kustomizations: name the image", id="image"),
    ],
)
def test_a_difference_is_named_with_its_remedy(change, begins):
    (found,) = problems(PROJECT, replace(READY, **change))
    assert found.startswith(begins)


def test_this_tree_agrees_on_its_version():
    tree = read_tree(ROOT)
    version = read_project().version
    assert tree.chart == (version, version)
    assert tree.image_tags == {version}
