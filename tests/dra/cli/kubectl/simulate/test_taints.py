"""DeviceTaintRules in a play: whom they evict, and what fits afterwards."""

import json

import pytest

from tests.dra.cli.kubectl.simulate.manifests import manifest, template, using
from tests.dra.engine.diagnosis.cluster_states import claim, entry, node, pod, snapshot


def rule(selector, *, effect="NoExecute"):
    spec = {"deviceSelector": selector, "taint": {"key": "service", "effect": effect}}
    return manifest("DeviceTaintRule", "maintenance", spec, version="resource.k8s.io/v1")


@pytest.fixture
def cluster():
    users = tuple(pod(name, f"c-{name}", on="n1", phase="Running", started=True) for name in "ab")
    held = (claim(f"c-{name}", f"n1/gpu-{i}", listed=(entry(name),)) for i, name in enumerate("ab"))
    return snapshot(*held, pods=users, nodes=[node("n1")])


def test_the_pods_that_a_rule_evicts_are_listed_and_the_rule_is_summed_up(run, cluster):
    done = run(rule({}), cluster=cluster)
    assert done.exit_code == 0
    assert [line.split()[:4] for line in done.stdout.splitlines()[1:]] == [
        ["ml", "a", "n1", "gpu.example.com/n1/gpu-0"],
        ["ml", "b", "n1", "gpu.example.com/n1/gpu-1"],
    ]
    assert done.stderr == (
        "rule maintenance: would taint 2 devices (service:NoExecute), every device of every driver, since its selector "
        "is empty; 2 are held; 2 pods would be evicted at once\n"
    )


def test_as_data_each_eviction_has_its_rule_and_its_time(run, cluster):
    (first, _) = json.loads(run(rule({}), cluster=cluster, options=["--output=json"]).stdout)["items"]
    told = {key: first[key] for key in ("evicted", "rule", "seconds", "claims", "owner")}
    assert told == {"evicted": True, "rule": "maintenance", "seconds": 0, "claims": ["c-a"], "owner": ""}


@pytest.mark.parametrize(
    ("selector", "effect", "waiting"),
    [
        pytest.param({"device": "gpu-9"}, "NoExecute", True, id="nothing-is-freed"),
        pytest.param({}, "NoExecute", True, id="what-is-freed-is-tainted"),
        pytest.param({"device": "gpu-0"}, "None", True, id="a-mark-frees-nothing"),
    ],
)
def test_a_pod_of_the_manifests_finds_no_device_that_a_rule_has_emptied(run, cluster, selector, effect, waiting):
    asking = manifest("Pod", "new", using(template="one"))
    done = run(rule(selector, effect=effect), template("one"), asking, cluster=cluster, options=["--output=json"])
    (new,) = (each for each in json.loads(done.stdout)["items"] if each["metadata"]["name"] == "new")
    assert new["placed"] is not waiting


def test_a_rule_that_selects_nothing_is_told(run, cluster):
    done = run(rule({"selectors": []}), cluster=cluster)
    unknown, void = done.stderr.splitlines()
    assert unknown.startswith('note: devicetaintrule maintenance: unknown field "spec.deviceSelector.selectors"')
    assert void == "rule maintenance: selects no device: deviceSelector is missing, or has criteria that are unknown"


@pytest.mark.parametrize(
    ("taint", "why"),
    [
        pytest.param({"key": "service", "effect": "NoExecut"}, "spec.taint.effect: Unsupported value", id="effect"),
        pytest.param({"effect": "NoExecute"}, "spec.taint.key: Invalid value", id="no-key"),
        pytest.param(None, "spec.taint.key: Invalid value", id="no-taint"),
    ],
)
def test_a_rule_that_the_api_server_would_refuse_has_no_preview(run, cluster, taint, why):
    spec = {"deviceSelector": {}} | ({"taint": taint} if taint else {})
    done = run(manifest("DeviceTaintRule", "maintenance", spec, version="resource.k8s.io/v1"), cluster=cluster)
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: DeviceTaintRule maintenance: spec.taint.")
    assert why in done.stderr


def test_one_held_device_is_told_in_the_singular(run, cluster):
    done = run(rule({"device": "gpu-0"}), cluster=cluster)
    assert "would taint 1 device (service:NoExecute); 1 is held; 1 pod would be evicted at once" in done.stderr


def test_of_two_rules_with_one_name_the_last_one_counts(run, cluster):
    done = run(rule({"device": "gpu-0"}), rule({"device": "gpu-1"}), cluster=cluster)
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == ["b"]
