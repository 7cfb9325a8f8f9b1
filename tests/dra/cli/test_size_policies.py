"""The policies in deploy/ that limit the size of Reservations and PodMigrationJobs; a server judges the same files in
tests/scenarios/reservations/test_sizes.py."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dra.api.structural_schema import MAX_ENTRIES
from dra.cel import expressions
from dra.cel.evaluator import cel
from dra.cli.size_policies import KINDS, MAX_CHARACTERS, exceeds_shape, manifest
from tests.deploy.judging import judge
from tests.dra.api.migration import manifests as jobs
from tests.dra.api.reservations import manifests as reservations

RESERVATIONS, JOBS = KINDS
LEVELS, ENTRIES = 3, 2
ENVIRONMENT = expressions.environment({"value": cel().Type.DYN})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_the_files_are_those_of_the_module(kind):
    assert kind.file.read_text(encoding="utf-8") == manifest(kind), "run: python -m dra.cli.size_policies"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def exceeds(value, *, entries, levels):
    """What the expression means."""
    if not isinstance(value, list | dict):
        return False
    if len(value) > (entries if levels else 0):
        return True
    children = value if isinstance(value, list) else value.values()
    return any(exceeds(child, entries=entries, levels=levels - 1) for child in children)


@given(value=JSON)
def test_a_shape_is_exceeded_by_levels_and_by_entries(value):
    text = exceeds_shape("value", levels=LEVELS).replace(f"> {MAX_ENTRIES}", f"> {ENTRIES}")
    exceeded = expressions.Expression(text, ENVIRONMENT).evaluate({"value": value})
    assert exceeded == exceeds(value, entries=ENTRIES, levels=LEVELS)


def judged(kind, obj, *, old=None):
    """Judge by the policy, with the test above in place of the expression, which the evaluator for Python limits."""
    policy, _ = yaml.safe_load_all(manifest(kind))
    spec, shape, *rest = policy["spec"]["variables"]
    assert (spec["name"], shape["name"]) == ("spec", "misshapen")
    unchanged = old is not None and old["spec"] == obj["spec"]
    misshapen = not unchanged and exceeds(obj["spec"], entries=MAX_ENTRIES, levels=kind.levels)
    variables = [spec, {**shape, "expression": str(misshapen).lower()}, *rest]
    return judge({"matchConditions": [], **policy["spec"], "variables": variables}, {}, obj=obj, old=old)


def with_pod(**spec):
    made = reservations.manifest()
    made["spec"]["template"]["spec"] |= spec
    return made


def with_metadata(**metadata):
    made = reservations.manifest()
    made["metadata"] |= metadata
    return made


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


MISSHAPEN = "spec: has a list or map of more than 1024 entries, or more than 13 levels of them; leave out of"
REFERENCE = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}
TOO_LARGE = [
    pytest.param(with_pod(x=[{}] * 1025), MISSHAPEN, id="a-list"),
    pytest.param(with_pod(x={str(n): 0 for n in range(1025)}), MISSHAPEN, id="a-map"),
    pytest.param(with_pod(x=deep(11)), MISSHAPEN, id="levels"),
    pytest.param(with_pod(x="x" * MAX_CHARACTERS), "characters, the maximum is 262144", id="a-text"),
    pytest.param(with_pod(x=["x" * 1000] * 300), "characters, the maximum is 262144", id="texts"),
    pytest.param(with_pod(x=[[0] * 1000] * 17), "values, the maximum is 16384", id="values"),
    pytest.param(with_pod(x=[[[[[[[[0]]]]]]]] * 1000 + [[[[[[[[0]]]]]]]] * 20), None, id="few-lists"),
    pytest.param(with_pod(x=[[[[[[[[[0]]]]]]]]] * 1000, y=[[[[[[[[[0]]]]]]]]] * 1000), "values, the", id="lists"),
    pytest.param(with_pod(x=[[{"a": {}}] * 100] * 90), "values, the maximum is 16384", id="maps"),
    pytest.param(with_metadata(labels={f"k{n}": "" for n in range(257)}), "metadata.labels: has 257", id="labels"),
    pytest.param(
        with_metadata(annotations={f"k{n}": "" for n in range(257)}), "metadata.annotations: has 257", id="annotations"
    ),
    pytest.param(with_metadata(finalizers=["a/b"] * 65), "metadata.finalizers: has 65 entries", id="finalizers"),
    pytest.param(with_metadata(ownerReferences=[REFERENCE] * 65), "metadata.ownerReferences: has 65", id="references"),
    pytest.param(
        with_metadata(ownerReferences=[{**REFERENCE, "name": "x" * 1025}]),
        "no object has such a name",
        id="a-reference",
    ),
]


@pytest.mark.parametrize(("obj", "text"), TOO_LARGE)
def test_what_is_too_large_is_refused_with_the_part_and_what_to_do(obj, text):
    passed, told = judged(RESERVATIONS, obj)
    assert passed is (text is None)
    assert text is None or text in told


@pytest.mark.parametrize(("obj", "text"), TOO_LARGE)
def test_what_was_stored_before_can_lose_its_finalizers_and_get_a_label(obj, text):
    del text
    metadata = {**obj["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    metadata["finalizers"] = metadata.get("finalizers", [])[1:]
    if "labels" not in metadata:
        metadata["labels"] = {"a": "b"}
    assert judged(RESERVATIONS, {**obj, "metadata": metadata}, old=obj) == (True, "")


def test_what_was_stored_before_is_judged_again_when_the_spec_changes():
    fat = with_pod(x=[{}] * 1025)
    passed, told = judged(RESERVATIONS, {**fat, "spec": {**fat["spec"], "ttl": "2h"}}, old=fat)
    assert not passed
    assert told.startswith(MISSHAPEN)


def env(count):
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['app']"}}
    return [{"name": f"VARIABLE_{n}", "valueFrom": field} for n in range(count)]


def test_the_template_of_a_large_pod_passes():
    """Ten containers of fifty variables each, all kinds of volumes and affinities are more than people write."""
    term = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}}
    weighted = [{"weight": 1, "podAffinityTerm": {**term, "topologyKey": "zone"}}] * 20
    source = {"clusterTrustBundle": {**term, "path": "ca.pem"}}
    pod = {
        "containers": [
            {"name": f"c{n}", "image": "a/b:c", "args": ["x" * 200] * 20, "env": env(50)} for n in range(10)
        ],
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}},
        "volumes": [{"name": f"v{n}", "projected": {"sources": [source] * 5}} for n in range(50)],
    }
    assert judged(RESERVATIONS, with_pod(**pod)) == (True, "")
    assert judged(JOBS, jobs.manifest(**jobs.with_template(template={"spec": {**pod, "affinity": {}}}))) == (True, "")
