"""The manifests in crds/ are those that the models make."""

from dra.cli import crd_manifests


def test_the_manifests_are_those_of_the_models():
    there = {path.name: path.read_text(encoding="utf-8") for path in crd_manifests.CRDS_FOLDER.glob("*.*.*.yaml")}
    assert there == crd_manifests.manifests(), "run: python -m dra.cli.crd_manifests"
