"""The manifest of krew: one entry for each archive, with its checksum and address."""

import re

import yaml

from release.krew_manifest import manifest, yaml_text
from release.plan import KREW_PLATFORMS
from release.project import Project

PROJECT = Project(name="dra-reserve", version="1.2.3", source="https://a/b", image="r/i", charts="r/c")
MADE = manifest(PROJECT, sha256s={each: str(number) * 64 for number, each in enumerate(KREW_PLATFORMS)})


def test_each_platform_has_its_archive_and_checksum():
    found = {
        "-".join(each["selector"]["matchLabels"][key] for key in ("os", "arch")): (each["uri"], each["sha256"])
        for each in MADE["spec"]["platforms"]
    }
    prefix = "https://a/b/releases/download/v1.2.3/kubectl-dra-1.2.3-"
    assert found == {each: (f"{prefix}{each}.tar.gz", str(number) * 64) for number, each in enumerate(KREW_PLATFORMS)}


def test_the_version_begins_with_v_as_krew_demands():
    assert re.fullmatch(r"v\d+\.\d+\.\d+", MADE["spec"]["version"])


def test_texts_of_several_lines_are_written_as_lines():
    text = yaml_text(MADE)
    assert "  caveats: |\n" in text
    assert yaml.safe_load(text) == MADE


def test_the_short_description_fits_into_the_list_of_plugins():
    assert len(MADE["spec"]["shortDescription"]) <= 50
