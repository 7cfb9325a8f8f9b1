"""Our renderer makes of each kustomization what kubectl makes of it."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dra.cli.manifests import kustomization
from dra.cli.manifests.kustomization import CLUSTER_KINDS, RenderOptions, UnknownFieldError

ROOT = Path(__file__).parents[4]
FOLDERS = sorted(
    str(path.parent.relative_to(ROOT))
    for path in [*ROOT.glob("deploy/**/kustomization.yaml"), ROOT / "crds/kustomization.yaml"]
    if "helm" not in path.parts
)


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl renders kustomizations")


def by_name(objects):
    """Objects by kind, namespace and name; kubectl's kustomize takes policies for namespaced objects."""
    found = {}
    for each in objects:
        meta = each["metadata"]
        if each["kind"] in CLUSTER_KINDS:
            meta.pop("namespace", None)
        found[each["kind"], meta.get("namespace"), meta["name"]] = each
    return found


@needs_kubectl
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_kustomization_is_rendered_as_kubectl_renders_it(folder):
    command = ["kubectl", "kustomize", str(ROOT / folder)]
    expected = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert by_name(kustomization.render(folder)) == by_name(yaml.safe_load_all(expected))


def test_what_others_need_comes_first():
    kinds = [each["kind"] for each in kustomization.render("deploy/reservations")]
    assert kinds[0] == "CustomResourceDefinition"
    assert kinds[-1] == "Deployment"


def test_an_image_replaces_the_name_in_the_files():
    options = RenderOptions(image="registry.example.com/dra-reserve:2")
    (found,) = (
        each for each in kustomization.render("deploy/kustomize/alongside", options) if each["kind"] == "Deployment"
    )
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/dra-reserve:2"


def test_another_configuration_gets_another_name_so_that_pods_restart():
    def config_map(options):
        objects = kustomization.render("deploy/kustomize/base", options)
        (found,) = (each for each in objects if each["kind"] == "ConfigMap")
        (deployment,) = (each for each in objects if each["kind"] == "Deployment")
        assert deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] == found["metadata"]["name"]
        return found

    changed = config_map(RenderOptions(replaced_files={"deploy/kustomize/base/config.yaml": "mode: replace\n"}))
    assert changed["data"] == {"config.yaml": "mode: replace\n"}
    assert changed["metadata"]["name"] != config_map(None)["metadata"]["name"]


def test_an_unknown_field_is_an_error(monkeypatch):
    monkeypatch.setattr(
        kustomization.package_data, "read_text", lambda _: "kind: Kustomization\napiVersion: v1\nnamePrefix: x"
    )
    with pytest.raises(UnknownFieldError, match="namePrefix"):
        kustomization.load("deploy/policies")
