"""Jobs, Deployments and ReplicaSets: what is filled in, what is refused, what may change."""

from copy import deepcopy

import pytest

from tests.localplane.kinds.registry_client import NOON, RegistryClient, refused
from tests.violations import combinations, for_each_case

MISMATCH = 'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`'
LABELS = {"app": "a"}
POD = {"containers": [{"name": "c", "image": "pause"}]}


def job(*, policy="Never", **spec):
    spec = {"template": {"spec": deepcopy(POD) | ({"restartPolicy": policy} if policy else {})}} | spec
    meta = {"name": "train", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def deployment(kind="Deployment", **spec):
    template = {"metadata": {"labels": dict(LABELS)}, "spec": deepcopy(POD)}
    spec = {"selector": {"matchLabels": dict(LABELS)}, "template": template} | spec
    meta = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


def change(**spec):
    return lambda obj: obj["spec"].update(spec)


def test_a_job_runs_one_pod_that_it_knows_by_its_uid():
    made = RegistryClient().create(job())
    uid, spec = made["metadata"]["uid"], made["spec"]
    wanted = {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
    }
    assert wanted.items() <= spec.items()
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "controller-uid": uid,
        "batch.kubernetes.io/controller-uid": uid,
        "job-name": "train",
        "batch.kubernetes.io/job-name": "train",
    }
    assert made["status"] == {}


@pytest.mark.parametrize(
    ("obj", "causes"),
    [
        pytest.param(
            job(policy=""),
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
            id="no-restart-policy",
        ),
        pytest.param(
            job(parallelism=-1),
            ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
            id="negative-parallelism",
        ),
        pytest.param(
            job(completionMode="Indexed", parallelism=2),
            ["spec.completions: Required value: when completion mode is Indexed"],
            id="indexes-without-end",
        ),
        pytest.param(
            job(backoffLimitPerIndex=1),
            ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
            id="limit-of-no-index",
        ),
        pytest.param(
            job(template={"spec": {"restartPolicy": "Never"}}),
            ["spec.template.spec.containers: Required value"],
            id="no-container",
        ),
    ],
)
def test_what_a_job_may_be(obj, causes):
    assert refused(RegistryClient().create, obj) == causes


@pytest.mark.parametrize(
    ("born", "mutate", "causes"),
    [
        pytest.param({}, change(parallelism=5), [], id="parallelism"),
        pytest.param({}, change(suspend=True), [], id="suspended"),
        pytest.param(
            {}, change(completions=5), ["spec.completions: Invalid value: 5: field is immutable"], id="completions"
        ),
        pytest.param(
            {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
            change(completions=3, parallelism=3),
            [],
            id="indexes-in-tandem",
        ),
        pytest.param(
            {},
            change(completionMode="Indexed"),
            ['spec.completionMode: Invalid value: "Indexed": field is immutable'],
            id="mode",
        ),
        pytest.param(
            {"suspend": True},
            lambda obj: obj["spec"]["template"]["spec"].update(nodeSelector={"a": "b"}),
            [],
            id="where-to-while-suspended",
        ),
    ],
)
def test_what_of_a_job_may_change(born, mutate, causes):
    writing = RegistryClient()
    writing.create(job(**born))
    assert refused(writing.update, job(), mutate) == causes


def test_the_template_of_a_job_is_immutable():
    writing = RegistryClient()
    writing.create(job())
    found = refused(writing.update, job(), lambda obj: obj["spec"]["template"]["spec"].update(nodeSelector={"a": "b"}))
    assert len(found) == 1
    assert found[0].startswith("spec.template: Invalid value: {")
    assert found[0].endswith(": field is immutable")


@pytest.mark.parametrize(
    ("status", "line"),
    [
        pytest.param({}, ("Running", "0/1", ""), id="new"),
        pytest.param({"startTime": "2026-11-21T11:58:00Z", "active": 1}, ("Running", "0/1", "2m"), id="running"),
        pytest.param(
            {
                "startTime": "2026-11-21T11:00:00Z",
                "completionTime": "2026-11-21T11:01:30Z",
                "succeeded": 1,
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            ("Complete", "1/1", "90s"),
            id="complete",
        ),
    ],
)
def test_the_line_of_a_job(status, line):
    writing = RegistryClient()
    writing.create(job())
    writing.update(job(), lambda obj: obj.update(status=status), "status")
    cells = writing.table_cells(job(), NOON)
    assert (cells["Status"], cells["Completions"], cells["Duration"]) == line
    assert cells["Images"] == "pause"


def test_a_deployment_replaces_a_quarter_at_a_time():
    made = RegistryClient().create(deployment())
    assert made["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (made["spec"]["replicas"], made["spec"]["revisionHistoryLimit"]) == (1, 10)


@for_each_case(
    combinations(
        ["Deployment", "ReplicaSet"],
        [
            pytest.param(
                {"selector": None},
                [
                    "spec.selector: Required value",
                    MISMATCH,
                ],
                id="no-selector",
            ),
            pytest.param(
                {"selector": {"matchLabels": {"app": "b"}}},
                [MISMATCH],
                id="selector-of-others",
            ),
            pytest.param(
                {"replicas": -1},
                ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
                id="fewer-than-none",
            ),
            pytest.param(
                {"template": {"metadata": {"labels": LABELS}, "spec": POD | {"restartPolicy": "Never"}}},
                ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
                id="pods-that-end",
            ),
        ],
    )
)
def test_what_is_replicated(kind, spec, causes):
    obj = deployment(kind)
    obj["spec"] = {key: value for key, value in (obj["spec"] | spec).items() if value is not None}
    assert refused(RegistryClient().create, obj) == causes


@pytest.mark.parametrize(
    ("strategy", "causes"),
    [
        pytest.param({"type": "Recreate"}, [], id="recreate"),
        pytest.param(
            {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}},
            [
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            ],
            id="no-way-forward",
        ),
        pytest.param(
            {"type": "Recreate", "rollingUpdate": {}},
            ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
            id="both-ways",
        ),
    ],
)
def test_how_a_deployment_is_rolled_out(strategy, causes):
    assert refused(RegistryClient().create, deployment(strategy=strategy)) == causes


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_the_selector_is_immutable(kind):
    writing = RegistryClient()
    writing.create(deployment(kind))

    def rename(obj):
        obj["spec"]["selector"]["matchLabels"] = {"app": "b"}
        obj["spec"]["template"]["metadata"]["labels"] = {"app": "b"}

    assert refused(writing.update, deployment(kind), rename) == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable'
    ]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_a_scale_shows_and_changes_the_replicas(kind):
    writing = RegistryClient()
    writing.create(deployment(kind))
    scale = writing.catalog.kind_of(deployment(kind)).subresource("scale")
    shown = scale.read(writing.get(deployment(kind)))
    assert (shown["kind"], shown["spec"], shown["status"]["selector"]) == ("Scale", {"replicas": 1}, "app=a")
    changed = writing.update(deployment(kind), lambda obj: obj.update(spec={"replicas": 3}), "scale")
    assert changed["spec"]["replicas"] == 3
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("template", "own", "shown"),
    [
        pytest.param({}, {}, {"batch.kubernetes.io/job-name"}, id="those-of-its-pods"),
        pytest.param({"a": "b"}, {"c": "d"}, {"c"}, id="its-own"),
    ],
)
def test_the_labels_of_a_job(template, own, shown):
    obj = job()
    obj["metadata"]["labels"] = own
    obj["spec"]["template"].setdefault("metadata", {})["labels"] = template
    labels = RegistryClient().create(obj)["metadata"].get("labels") or {}
    assert shown <= labels.keys()
    assert bool(own) == (labels == own)
