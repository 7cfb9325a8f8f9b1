import pytest
from pydantic import ValidationError

from dra.api.configuration import ControllerConfiguration, ControllerMode, Endpoint, LogFormat
from dra.cel.object_rules import CompiledRule
from dra.model.references import GroupResource
from tests.violations import for_each_case


def problems(content):
    with pytest.raises(ValidationError) as refused:
        ControllerConfiguration.model_validate(content)
    return {".".join(map(str, error["loc"])): error["msg"] for error in refused.value.errors()}


def test_nothing_need_be_set():
    chosen = ControllerConfiguration()
    assert (chosen.mode, chosen.release_finished, chosen.leader_election.enabled) == (
        ControllerMode.ALONGSIDE,
        True,
        True,
    )
    assert chosen.probes.port != chosen.metrics.port


def test_files_are_written_in_camel_case():
    chosen = ControllerConfiguration.model_validate(
        {
            "mode": "alongside",
            "releaseFinished": False,
            "leaderElection": {"leaseSeconds": 20, "renewSeconds": 15},
            "logging": {"format": "text"},
            "probes": {"port": 0},
        }
    )
    assert (chosen.mode, chosen.release_finished, chosen.leader_election.lease_seconds) == (
        ControllerMode.ALONGSIDE,
        False,
        20.0,
    )
    assert ControllerConfiguration.model_validate({"metrics": None}).metrics is None
    assert (chosen.logging.format, chosen.probes) == (LogFormat.TEXT, Endpoint(address="127.0.0.1", port=0))


@for_each_case(
    [
        pytest.param({"mod": "replace"}, "mod", id="unknown-field"),
        pytest.param({"leaderElection": {"leaseSecond": 20}}, "leaderElection.leaseSecond", id="unknown-field-inside"),
        pytest.param({"mode": "both"}, "mode", id="no-such-mode"),
        pytest.param({"qps": 0}, "qps", id="no-request-a-second"),
        pytest.param({"burst": 0}, "burst", id="no-request-at-once"),
        pytest.param({"probes": {"port": 70000}}, "probes.port", id="no-such-port"),
        pytest.param({"leaderElection": {"leaseSeconds": 1}}, "leaderElection.leaseSeconds", id="lease-too-short"),
        pytest.param({"releaseRules": [{"resource": "jobs.batch"}]}, "releaseRules.0.expression", id="half-a-rule"),
        pytest.param({"releaseFinished": "perhaps"}, "releaseFinished", id="neither-yes-nor-no"),
        pytest.param({"logging": {"level": "loud"}}, "logging.level", id="no-such-level"),
    ]
)
def test_mistakes_are_answered_with_the_name_of_the_field(content, field):
    assert list(problems(content)) == [field]


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValidationError):
        ControllerConfiguration().mode = ControllerMode.ALONGSIDE


def test_rules_of_the_file_come_on_top_and_take_the_place_of_built_in_ones():
    chosen = ControllerConfiguration.model_validate(
        {
            "releaseRules": [
                {"resource": "workflows.argoproj.io", "expression": "object.done"},
                {"resource": "jobs.batch", "expression": "object.mine"},
            ]
        }
    )
    rules = chosen.release_rules_by_resource()
    assert (rules["workflows.argoproj.io"], rules["jobs.batch"]) == ("object.done", "object.mine")
    assert "jobsets.jobset.x-k8s.io" in rules


def condition(kind, status="True"):
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


@for_each_case(
    [
        pytest.param("jobs.batch", condition("Complete"), True, id="job-complete"),
        pytest.param("jobs.batch", condition("Failed"), True, id="job-failed"),
        pytest.param("jobs.batch", condition("Complete", "False"), False, id="job-not-complete"),
        pytest.param("jobs.batch", condition("SuccessCriteriaMet"), False, id="job-with-pods-still-ending"),
        pytest.param("jobs.batch", {"status": {}}, False, id="job-without-conditions"),
        pytest.param("jobsets.jobset.x-k8s.io", condition("Completed"), True, id="jobset-completed"),
        pytest.param("jobsets.jobset.x-k8s.io", condition("Failed"), True, id="jobset-failed"),
        pytest.param("jobsets.jobset.x-k8s.io", condition("StartupPolicyCompleted"), False, id="jobset-started"),
        pytest.param("pods", {"status": {"phase": "Succeeded"}}, True, id="pod-succeeded"),
        pytest.param("pods", {"status": {"phase": "Running"}}, False, id="pod-running"),
    ]
)
def test_built_in_rules(resource, content, over):
    assert CompiledRule(ControllerConfiguration().release_rules_by_resource()[resource]).holds(content) is over


@for_each_case(ControllerConfiguration().release_rules_by_resource())
def test_built_in_rules_name_kinds_as_kubectl_does(resource):
    assert str(GroupResource.parse(resource)) == resource
