"""The addresses of the project are those of pyproject.toml in each file that names them."""

import re
import subprocess
from pathlib import Path

import yaml

from dra.engine.messages.documentation import TREE_URL
from release.project import read_project

ROOT = Path(__file__).parents[2]
PROJECT = read_project()


def texts():
    """Each file of ours with text, by path; generated code and locks of other languages excepted."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()  # noqa: S607
    for name in listed:
        if name.endswith((".py", ".toml", ".md", ".yaml", ".yml", ".sh", "Makefile", "Containerfile", "NOTICE")):
            yield name, (ROOT / name).read_text()


def test_the_tree_of_the_documentation_is_that_of_the_source():
    assert f"{PROJECT.source}/blob/main" == TREE_URL


def test_the_chart_names_the_source():
    chart = yaml.safe_load((ROOT / "deploy/helm/dra-reserve/Chart.yaml").read_text())
    assert (chart["home"], chart["sources"]) == (PROJECT.source, [PROJECT.source])


def test_each_address_of_ours_begins_as_in_pyproject():
    host, _, owner = PROJECT.source.removeprefix("https://").partition("/")
    registry = PROJECT.image.partition("/")[0]
    owner = owner.partition("/")[0]
    pattern = re.compile(rf"(?:{re.escape(host)}|{re.escape(registry)})/{owner}/[\w-]+")
    ours = {PROJECT.source.removeprefix("https://"), PROJECT.image, PROJECT.charts}
    found = {(name, address) for name, text in texts() for address in pattern.findall(text)}
    assert {address for _, address in found} == ours
    assert [each for each in found if each[1] not in ours] == []


def test_all_urls_of_the_package_are_below_the_source():
    urls = re.findall(r'^\w+ = "(https://\S+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(urls) >= 5
    assert [url for url in urls if not url.startswith(PROJECT.source)] == []
