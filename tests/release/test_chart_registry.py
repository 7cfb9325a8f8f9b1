"""The chart of a release goes to a registry as an OCI artifact, and Helm reads that version from there."""

import pytest
import yaml

from release.archives import write_archive
from release.chart import chart_entries
from release.plan import Artefacts
from release.project import read_project
from tests.cluster.charts import HelmError, helm
from tests.cluster.oci_registry import registry

pytestmark = pytest.mark.slow

PROJECT = read_project()
DIGEST = "sha256:" + "b" * 64


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """The address of the chart in a registry that has it, as users write the address."""
    folder = tmp_path_factory.mktemp("registry")
    archive = folder / Artefacts(version=PROJECT.version).chart
    write_archive(archive, chart_entries(PROJECT, repository=PROJECT.image, digest=DIGEST))
    with registry(folder) as address:
        charts = f"oci://{address}/{PROJECT.charts.partition('/')[2]}"
        helm("push", str(archive), charts, "--plain-http")
        yield f"{charts}/{PROJECT.name}"


def test_helm_shows_the_version_of_the_release(pushed):
    chart = yaml.safe_load(helm("show", "chart", pushed, "--plain-http", f"--version={PROJECT.version}"))
    assert (chart["version"], chart["appVersion"]) == (PROJECT.version, PROJECT.version)
    assert chart["home"] == PROJECT.source


def test_helm_renders_the_image_of_the_release_by_its_digest(pushed):
    text = helm("template", "dra-reserve", pushed, "--plain-http", f"--version={PROJECT.version}")
    images = {
        container["image"]
        for each in yaml.safe_load_all(text)
        if each and each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"{PROJECT.image}@{DIGEST}"}


def test_another_version_is_not_there(pushed):
    with pytest.raises(HelmError):
        helm("show", "chart", pushed, "--plain-http", "--version=99.0.0")


def test_helm_pulls_the_bytes_that_were_pushed(pushed, tmp_path):
    write_archive(tmp_path / "again.tgz", chart_entries(PROJECT, repository=PROJECT.image, digest=DIGEST))
    helm("pull", pushed, "--plain-http", f"--version={PROJECT.version}", f"--destination={tmp_path}")
    pulled = tmp_path / Artefacts(version=PROJECT.version).chart
    assert pulled.read_bytes() == (tmp_path / "again.tgz").read_bytes()
