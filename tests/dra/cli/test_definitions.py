"""The manifests in crds/ are those that the models make."""

from dra.cli import definitions


def test_the_manifests_are_those_of_the_models():
    there = {path.name: path.read_text(encoding="utf-8") for path in definitions.FOLDER.glob("*.*.*.yaml")}
    assert there == definitions.manifests(), "run: python -m dra.cli.definitions"
