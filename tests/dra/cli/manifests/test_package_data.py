"""The data is found in a checkout and in a wheel."""

import shutil
from pathlib import Path

import pytest

from dra.cli.manifests import package_data

ROOT = Path(__file__).parents[4]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package as a wheel installs it."""
    data = tmp_path / "dra" / package_data.WHEEL_FOLDER
    shutil.copytree(ROOT / "examples" / "drain", data / "examples" / "drain")
    monkeypatch.setattr(package_data.resources, "files", lambda name: tmp_path / name)
    return data


def test_in_a_checkout_it_is_the_top_of_the_tree():
    assert package_data.data_root() == ROOT


def test_in_a_wheel_it_is_inside_the_package(installed):
    assert package_data.data_root() == installed
    assert list(package_data.files_below("examples")) == ["examples/drain/README.md", "examples/drain/service.yaml"]
    assert package_data.read_text("examples/drain/README.md").startswith("# Drain a node")


def test_links_of_the_chart_are_followed_and_generators_are_left_out():
    found = list(package_data.files_below("deploy"))
    assert "deploy/helm/dra-reserve/files/controller/rights.yaml" in found
    assert [each for each in found if each.endswith(".py")] == []
    assert "examples/foreign-controller/operator.py" in list(package_data.files_below("examples"))
