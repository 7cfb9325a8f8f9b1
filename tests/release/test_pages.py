"""Pages about releases name the addresses, the version and the steps of a release as these are."""

import re
import subprocess
from pathlib import Path

from release import launcher
from release.plan import Artefacts
from release.project import read_project
from tests.commands import shell_environment
from tests.pages.reading import blocks

ROOT = Path(__file__).parents[2]
PROJECT = read_project()
INSTALL = (ROOT / "docs/how-to/install.md").read_text().partition("\n## After the first release\n")[2]
RELEASING = (ROOT / "docs/design/releasing.md").read_text()


def commands(text):
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


def test_all_commands_of_a_release_are_marked_while_there_is_none():
    assert commands(INSTALL)
    if "No version has been released yet" in (ROOT / "CHANGELOG.md").read_text():
        assert [each for each in commands(INSTALL) if "# not run here: nothing is published yet" not in each] == []
        assert "**Nothing is published yet**" in INSTALL


def test_commands_name_the_published_addresses_and_this_version():
    text = "\n".join(commands(INSTALL))
    assert f"pip install ./{Artefacts(version=PROJECT.version).package[0]} " in text
    assert f"krew install --manifest={Artefacts(version=PROJECT.version).krew_manifest} " in text
    assert f"oci://{PROJECT.charts}/{PROJECT.name} --version {PROJECT.version} " in text
    assert f"oci://{PROJECT.image}:{PROJECT.version} " in text
    assert f" {Artefacts(version=PROJECT.version).chart} " in text
    assert set(re.findall(r"--repo (\S+)", text)) == {PROJECT.source.removeprefix("https://github.com/")}


def test_the_page_names_the_versions_of_python_that_archives_have():
    assert f"CPython 3.{launcher.OLDEST} to 3.{launcher.NEWEST}" in INSTALL


def test_commands_that_are_run_print_the_plan_and_no_more():
    runnable = [command for block in blocks("docs/design/releasing.md") for command in block.runnable]
    assert runnable == ["make release --dry-run"]
    for command in runnable:
        words = [*command.split(), "--old-file=.venv/.installed"]
        done = subprocess.run(
            words, cwd=ROOT, env=shell_environment(), capture_output=True, text=True, timeout=60, check=True
        )
        assert f"\nrelease {PROJECT.version} of {PROJECT.source}, into dist; nothing is run\n" in done.stdout


def test_each_file_of_a_release_is_explained():
    table = RELEASING.partition("## What is in a release")[2]
    made = Artefacts(version="VERSION")
    for name in (made.package[0], made.chart, made.krew_manifest, made.package_sbom, made.provenance, made.checksums):
        assert f"`{name}`" in table, name
