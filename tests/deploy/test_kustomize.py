"""What can be said of the installation without a cluster; the rest is tests/scenarios/test_deploy.py."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra.api.configuration import ControllerConfiguration, ControllerMode, Endpoint

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl renders kustomizations")

RIGHTS = (
    "rights.yaml",
    "workload-rights.yaml",
    "eviction-rights.yaml",
    "../replace/generation-rights.yaml",
    "../annotate-nodes/node-rights.yaml",
)
KUSTOMIZE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base"
USED = {"get", "list", "watch", "create", "patch", "update", "delete", "reserve"}


def documents(*files: str) -> list[Any]:
    return [obj for file in files for obj in yaml.safe_load_all((KUSTOMIZE / file).read_text())]


def test_the_configuration_is_the_default_but_for_what_it_says() -> None:
    (content,) = documents("config.yaml")
    everywhere = {
        "probes": Endpoint(address="0.0.0.0", port=8081),  # noqa: S104 a pod's own network
        "metrics": Endpoint(address="0.0.0.0", port=8080),  # noqa: S104 likewise
    }
    assert ControllerConfiguration.model_validate(content) == ControllerConfiguration().model_copy(update=everywhere)


def test_every_field_of_the_configuration_is_shown() -> None:
    (content,) = documents("config.yaml")
    assert set(content) == {field.alias for field in ControllerConfiguration.model_fields.values()}


def test_the_rights_name_everything_and_contain_no_verb_that_is_not_used() -> None:
    roles = [obj for obj in documents(*RIGHTS) if obj["kind"].endswith("Role")]
    rules = [rule for role in roles for rule in role.get("rules", [])]
    assert rules
    for rule in rules:
        assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert set(rule["verbs"]) <= USED


def test_the_lease_that_may_be_used_is_the_one_that_is_configured() -> None:
    (content,) = documents("config.yaml")
    wanted = content["leaderElection"]
    (role,) = (obj for obj in documents("rights.yaml") if obj["kind"] == "Role")
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [[wanted["name"]]]
    assert documents("kustomization.yaml")[0]["namespace"] == wanted["namespace"]


def test_the_ports_of_the_container_are_those_of_the_configuration() -> None:
    (content,) = documents("config.yaml")
    (deployment,) = (obj for obj in documents("deployment.yaml") if obj["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {name: content[name]["port"] for name in ("metrics", "probes")}


def kustomized(overlay: str) -> dict[tuple[str, str], Any]:
    """Return what an overlay renders, by kind and name."""
    command = ["kubectl", "kustomize", str(KUSTOMIZE.parent / overlay)]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in yaml.safe_load_all(rendered)}


@needs_kubectl
def test_without_a_choice_it_is_alongside() -> None:
    assert kustomized(".") == kustomized("alongside")


@needs_kubectl
@pytest.mark.parametrize("mode", list(ControllerMode), ids=str)
def test_an_overlay_says_its_mode_in_the_last_word(mode: ControllerMode) -> None:
    deployment = kustomized(mode.value)["Deployment", "dra-reserve-controller"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["controller", "--config=/etc/dra-reserve/config.yaml", f"--mode={mode}"]


@needs_kubectl
def test_only_who_replaces_may_make_claims() -> None:
    alongside, replace = kustomized("alongside"), kustomized("replace")
    more = {("ClusterRole", "dra-reserve-generation"), ("ClusterRoleBinding", "dra-reserve-generation")}
    assert replace.keys() - alongside.keys() == more
    changed = {key for key in alongside if alongside[key] != replace[key]}
    assert changed == {("Deployment", "dra-reserve-controller")}


@needs_kubectl
@pytest.mark.parametrize("mode", list(ControllerMode), ids=str)
def test_only_with_koordinator_may_templates_be_made(mode: ControllerMode) -> None:
    made = kustomized("../koordinator")
    assert ("ClusterRole", "dra-reserve-koordinator") in made
    assert ("ValidatingAdmissionPolicyBinding", "controller-templates.reserve.dra") in made
    assert not made.keys() & kustomized(mode.value).keys()


@needs_kubectl
@pytest.mark.parametrize(
    ("folder", "kinds"),
    [
        pytest.param("reservations", {"reservations"}, id="reservations"),
        pytest.param("reservations-yielding", {"reservations"}, id="reservations-yielding"),
        pytest.param("descheduler", {"podmigrationjobs"}, id="descheduler"),
        pytest.param("koordinator-devices", {"devices"}, id="devices"),
        pytest.param("colocation", {"nodemetrics"}, id="colocation"),
        pytest.param(
            "colocation-profiles", {"clustercolocationprofiles", "colocationprofileparameters"}, id="profiles"
        ),
    ],
)
def test_a_folder_has_the_kinds_that_it_is_about_and_no_others(folder: str, kinds: set[str]) -> None:
    made = kustomized(f"../{folder}")
    assert {name.partition(".")[0] for kind, name in made if kind == "CustomResourceDefinition"} == kinds


@needs_kubectl
def test_on_kind_there_is_one_replica_and_no_quota() -> None:
    replace, kind = kustomized("replace"), kustomized("kind")
    assert replace.keys() - kind.keys() == {("ResourceQuota", "critical-pods")}
    assert kind["Deployment", "dra-reserve-controller"]["spec"]["replicas"] == 1
