"""Manifests of deploy/page without a cluster; a real API server judges the manifests in tests/scenarios/page."""

from pathlib import Path

import yaml

from dra.api.configuration import Endpoint
from dra.api.page_configuration import PageConfiguration
from dra.api.rbac import NAMESPACE
from dra.model.workload_types import WORKLOAD_TYPES
from tests.scenarios.rights import FOR_OTHERS, granted

FOLDER = Path(__file__).parents[2] / "deploy" / "page"
ACCOUNT = "dra-reserve-page"
REVIEWS = {("tokenreviews", "authentication.k8s.io"), ("subjectaccessreviews", "authorization.k8s.io")}
"""Kinds that the API server answers and does not store."""


def documents(file):
    return list(yaml.safe_load_all((FOLDER / file).read_text()))


def one(file, kind):
    (found,) = (obj for obj in documents(file) if obj["kind"] == kind)
    return found


def rights_of(role):
    return {
        (verb, resource, group)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_configuration_is_the_default_but_for_the_addresses():
    (content,) = documents("config.yaml")
    everywhere = {
        "serve": Endpoint(address="0.0.0.0", port=8080),  # noqa: S104 a pod's own network
        "probes": Endpoint(address="0.0.0.0", port=8081),  # noqa: S104 likewise
        "metrics": Endpoint(address="0.0.0.0", port=8082),  # noqa: S104 likewise
    }
    assert PageConfiguration.model_validate(content) == PageConfiguration().model_copy(update=everywhere)


def test_every_field_of_the_configuration_is_shown():
    (content,) = documents("config.yaml")
    assert set(content) == {field.alias for field in PageConfiguration.model_fields.values()}


def test_the_ports_of_the_container_are_those_of_the_configuration():
    (content,) = documents("config.yaml")
    (container,) = one("page.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {
        "page": content["serve"]["port"],
        **{name: content[name]["port"] for name in ("metrics", "probes")},
    }


def test_the_account_can_write_nothing():
    for right in granted(FOLDER):
        reads = right.verb in {"get", "list", "watch"}
        assert reads or (right.verb == "create" and (right.resource, right.group) in REVIEWS), right


def test_the_account_reads_no_kind_that_holds_secrets():
    assert not {right.resource for right in granted(FOLDER)} & {"secrets", "pods/log", "pods/exec", "*"}
    assert "*" not in {right.group for right in granted(FOLDER)} | {right.verb for right in granted(FOLDER)}


def test_of_config_maps_only_the_strategies_of_colocation_are_read():
    rules = [rule for rule in one("rights.yaml", "ClusterRole")["rules"] if "configmaps" in rule["resources"]]
    (rule,) = rules
    assert rule == {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["slo-controller-config"],
        "verbs": ["get"],
    }


def test_the_account_lists_the_workloads_that_the_controller_reads():
    kinds = {(each.resource.resource, each.resource.group) for each in WORKLOAD_TYPES if each.readable}
    listed = {(resource, group) for verb, resource, group in rights_of(one("rights.yaml", "ClusterRole"))}
    assert kinds <= listed


def test_only_the_leases_of_this_installation_are_read():
    (content,) = documents("config.yaml")
    (rule,) = one("rights.yaml", "Role")["rules"]
    assert rule["verbs"] == ["get"]
    assert rule["resourceNames"] == ["dra-reserve-controller", "dra-reserve-descheduler"]
    assert documents("kustomization.yaml")[0]["namespace"] == content["leaseNamespace"] == NAMESPACE


def test_one_account_has_the_rights_and_the_pods():
    assert one("rights.yaml", "ServiceAccount")["metadata"]["name"] == ACCOUNT
    assert one("page.yaml", "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == ACCOUNT
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        (subject,) = one("rights.yaml", kind)["subjects"]
        assert (subject["namespace"], subject["name"]) == (NAMESPACE, ACCOUNT)


def test_the_role_for_users_has_the_kinds_that_the_account_reads_and_writes_nothing():
    assert "user-roles.yaml" in FOR_OTHERS
    role = one("user-roles.yaml", "ClusterRole")
    of_the_account = rights_of(one("rights.yaml", "ClusterRole"))
    read = {right for right in of_the_account if right[0] != "create"}
    assert rights_of(role) - read == {("get", "namespaces", "")}
    assert read <= rights_of(role)
    assert "labels" not in role["metadata"], "nodes must not come to view, edit and admin"


def test_only_prometheus_and_the_ingress_controller_may_connect():
    (policy,) = documents("network-policy.yaml")
    peers = {rule["ports"][0]["port"]: rule["from"] for rule in policy["spec"]["ingress"]}
    assert peers.keys() == {"metrics", "page"}
    assert all(peers.values())
