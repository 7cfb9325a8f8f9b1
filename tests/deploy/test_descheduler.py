"""What can be said of deploy/descheduler without a cluster; a server judges it in tests/scenarios/migrations."""

from pathlib import Path

import yaml

from dra.api.configuration import Endpoint
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.rbac import NAMESPACE

FOLDER = Path(__file__).parents[2] / "deploy" / "descheduler"
ACCOUNT = "dra-reserve-descheduler"


def documents(file):
    return list(yaml.safe_load_all((FOLDER / file).read_text()))


def one(file, kind):
    (found,) = (obj for obj in documents(file) if obj["kind"] == kind)
    return found


def test_the_configuration_is_the_default_but_for_the_addresses():
    (content,) = documents("config.yaml")
    everywhere = {
        "probes": Endpoint(address="0.0.0.0", port=8085),  # noqa: S104 a pod's own network
        "metrics": Endpoint(address="0.0.0.0", port=8084),  # noqa: S104 likewise
    }
    assert DeschedulerProcessConfiguration.model_validate(content) == DeschedulerProcessConfiguration().model_copy(
        update=everywhere
    )


def test_every_field_of_the_configuration_is_shown():
    (content,) = documents("config.yaml")
    assert set(content) == {field.alias for field in DeschedulerProcessConfiguration.model_fields.values()}
    assert set(content["migration"]) == {field.alias for field in MigrationControllerArgs.model_fields.values()}


def test_the_ports_of_the_container_are_those_of_the_configuration():
    (content,) = documents("config.yaml")
    (container,) = one("descheduler.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {name: content[name]["port"] for name in ("metrics", "probes")}


def test_the_lease_that_may_be_used_is_the_one_that_is_configured():
    (content,) = documents("config.yaml")
    wanted = content["leaderElection"]
    rules = one("rights.yaml", "Role")["rules"]
    assert [rule["resourceNames"] for rule in rules if "resourceNames" in rule] == [[wanted["name"]]]
    assert documents("kustomization.yaml")[0]["namespace"] == wanted["namespace"] == NAMESPACE


def test_the_rights_name_everything():
    for rule in one("rights.yaml", "ClusterRole")["rules"]:
        assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}


def test_one_account_has_the_rights_the_pods_and_the_limits():
    assert one("rights.yaml", "ServiceAccount")["metadata"]["name"] == ACCOUNT
    assert one("descheduler.yaml", "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == ACCOUNT
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        (subject,) = one("rights.yaml", kind)["subjects"]
        assert (subject["namespace"], subject["name"]) == (NAMESPACE, ACCOUNT)
    policies = [obj for obj in documents("own-writes.yaml") if obj["kind"] == "ValidatingAdmissionPolicy"]
    limited = {condition["expression"] for obj in policies for condition in obj["spec"]["matchConditions"]}
    assert limited == {f"request.userInfo.username == 'system:serviceaccount:{NAMESPACE}:{ACCOUNT}'"}


def test_every_policy_is_bound_and_denies():
    objects = [*documents("own-writes.yaml"), *documents("admission.yaml")]
    names = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "ValidatingAdmissionPolicy"}
    bindings = [obj["spec"] for obj in objects if obj["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {each["policyName"] for each in bindings} == names
    assert all(each["validationActions"] == ["Deny"] for each in bindings)
