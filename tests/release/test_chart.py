"""The chart of a release names the image by its digest, and is otherwise the chart of the tree."""

import io
import json
import tarfile
from pathlib import Path

import pytest
import yaml

from release import chart
from release.project import read_project

PROJECT = read_project()
DIGEST = "sha256:" + "b" * 64


def oci_archive(path, *digests):
    """Write the index of an OCI archive, which is all that is read of one."""
    content = json.dumps({"schemaVersion": 2, "manifests": [{"digest": each} for each in digests]}).encode()
    with tarfile.open(path, "w") as archive:
        header = tarfile.TarInfo("index.json")
        header.size = len(content)
        archive.addfile(header, io.BytesIO(content))
    return path


def test_the_digest_of_the_image_is_read_from_its_archive(tmp_path):
    assert chart.image_digest(oci_archive(tmp_path / "image.tar", DIGEST)) == DIGEST


def test_an_image_that_was_not_built_is_named_with_the_step(tmp_path):
    with pytest.raises(chart.NoImageError, match=r"image\.tar: not there; run the step `image` first"):
        chart.image_digest(tmp_path / "image.tar")


def test_an_archive_with_two_images_is_refused(tmp_path):
    with pytest.raises(chart.NoImageError, match="has 2 images"):
        chart.image_digest(oci_archive(tmp_path / "image.tar", DIGEST, DIGEST))


def test_the_image_is_pinned_and_nothing_else_changes():
    entries = chart.chart_entries(PROJECT, repository="r/i", digest=DIGEST)
    made = yaml.safe_load(entries["dra-reserve/values.yaml"].content)
    of_the_tree = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    assert made.pop("image") == {**of_the_tree.pop("image"), "repository": "r/i", "digest": DIGEST}
    assert made == of_the_tree


def test_the_archive_has_the_manifests_that_are_links_in_the_tree():
    entries = chart.chart_entries(PROJECT, repository="r/i", digest=DIGEST)
    assert "dra-reserve/files/crds/kustomization.yaml" in entries
    assert {name.partition("/")[0] for name in entries} == {"dra-reserve"}


@pytest.mark.parametrize(
    ("text", "digest", "says"),
    [
        pytest.param((chart.CHART / "values.yaml").read_text(), "sha256:0", "is no digest", id="digest"),
        pytest.param("image: {}\n", DIGEST, "are not those expected", id="values"),
    ],
)
def test_what_cannot_be_pinned_is_an_error(text, digest, says):
    with pytest.raises(chart.NoImageError, match=says):
        chart.pinned_values(text, repository="r/i", digest=digest)


def test_the_command_writes_the_archive_of_a_given_image(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["chart", "--into", str(tmp_path), "--image", f"r/i@{DIGEST}"])
    assert chart.main() == 0
    assert Path(capsys.readouterr().out.strip()) == tmp_path / f"dra-reserve-{PROJECT.version}.tgz"
