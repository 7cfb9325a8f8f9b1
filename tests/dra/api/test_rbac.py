"""The rights that are asked for are those that deploy/ grants."""

from pathlib import Path

import yaml

from dra.api.rbac import (
    CLUSTER_ROLE_RULES,
    LEASE_NAME,
    NAMESPACE,
    NAMESPACE_ROLE_RULES,
    SERVICE_ACCOUNT,
    Permission,
    RolePurpose,
    permissions,
)
from tests.violations import for_each

DEPLOY = Path(__file__).parents[3] / "deploy"


def documents(folder):
    files = sorted((DEPLOY / folder).rglob("*.yaml"))
    return [each for path in files for each in yaml.safe_load_all(path.read_text()) if each is not None]


DOCUMENTS = documents("kustomize")
FOLDERS = ("descheduler", "descheduler-profiles", "koordinator", "colocation")
ALL_DOCUMENTS = [*DOCUMENTS, *(each for folder in FOLDERS for each in documents(folder))]


def granted(kind, name):
    rules = [
        rule
        for each in ALL_DOCUMENTS
        if each.get("kind") == kind and each["metadata"]["name"] == name
        for rule in each.get("rules") or ()
    ]
    return {
        Permission(group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or ("",)
    }


@for_each(list(RolePurpose), name=str)
def test_each_role_of_deploy_has_these_rights_and_no_others(purpose):
    assert granted("ClusterRole", purpose.value) == set(permissions(CLUSTER_ROLE_RULES[purpose]))


def test_the_lease_needs_what_deploy_grants():
    assert granted("Role", SERVICE_ACCOUNT) == set(permissions(NAMESPACE_ROLE_RULES))


def test_the_names_are_those_of_deploy():
    accounts = [each for each in DOCUMENTS if each.get("kind") == "ServiceAccount"]
    assert [each["metadata"]["name"] for each in accounts] == [SERVICE_ACCOUNT]
    assert [each["metadata"]["name"] for each in DOCUMENTS if each.get("kind") == "Namespace"] == [NAMESPACE]
    assert LEASE_NAME in {each.name for each in permissions(NAMESPACE_ROLE_RULES)}


def test_a_right_is_written_as_kubectl_names_things():
    assert str(Permission("resource.k8s.io", "resourceclaims/status", "patch")) == (
        "patch resourceclaims.resource.k8s.io/status"
    )
    assert str(Permission("", "pods", "list")) == "list pods"
