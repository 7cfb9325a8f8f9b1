from dra.cli.reference.release_rules import TRIALS
from dra.model.workload_types import WORKLOAD_TYPES
from tests.scenarios.beside.projects import PROJECTS

BUILT_IN = {"", "apps", "batch", "scheduling.k8s.io"}


def test_each_kind_that_is_no_part_of_kubernetes_was_tried():
    assert TRIALS.keys() == {str(each.resource) for each in WORKLOAD_TYPES if each.resource.group not in BUILT_IN}


def test_the_table_names_the_releases_that_the_scenarios_use():
    used = {}
    for project in PROJECTS:
        for operator in project.operators if project.release else ():
            used.setdefault(operator.group_resource, []).append(str(project).replace("-v", " v"))
    assert used == {kind: list(trial.releases) for kind, trial in TRIALS.items()}


def test_the_table_has_the_versions_of_the_api_that_the_scenarios_use():
    used = {
        operator.group_resource: operator.resource.api_version.partition("/")[2]
        for project in PROJECTS
        for operator in project.operators
    }
    assert used == {kind: trial.version for kind, trial in TRIALS.items()}
