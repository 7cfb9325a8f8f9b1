"""Which quotas count the pods of a Reservation's template, as kube-apiserver's evaluator of pods."""

import msgspec
import pytest

from dra.engine.reservations.quota_scopes import PodTraits, counts, from_template
from dra.model.quotas import ResourceQuota
from tests.violations import for_each_case

CPU = {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}
TERM = {"topologyKey": "zone", "namespaces": ["other"]}


def template(**spec):
    return {"spec": {**CPU, **spec}}


def quota(*scopes, **spec):
    spec |= {"scopes": list(scopes)} if scopes else {}
    return msgspec.convert({"metadata": {"namespace": "ml", "name": "team"}, "spec": spec}, ResourceQuota)


def classes(operator, *values):
    return {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}


@for_each_case(
    [
        pytest.param(template(), {"NotTerminating", "NotBestEffort"}, id="burstable"),
        pytest.param(template(activeDeadlineSeconds=60), {"Terminating", "NotBestEffort"}, id="deadline"),
        pytest.param(template(activeDeadlineSeconds=0), {"Terminating", "NotBestEffort"}, id="deadline-of-0"),
        pytest.param(
            template(priorityClassName="high"), {"NotTerminating", "NotBestEffort", "PriorityClass"}, id="class"
        ),
        pytest.param({"spec": {"containers": [{}]}}, {"NotTerminating", "BestEffort"}, id="no-requests"),
        pytest.param(
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "0", "nvidia.com/gpu": "1"}}}]}},
            {"NotTerminating", "BestEffort"},
            id="neither-cpu-nor-memory",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"limits": {"memory": "1Gi"}}}]}},
            {"NotTerminating", "NotBestEffort"},
            id="limits-alone",
        ),
        pytest.param(
            {"spec": {"containers": [{}], "initContainers": [{"resources": {"requests": {"cpu": 1}}}]}},
            {"NotTerminating", "NotBestEffort"},
            id="init-container",
        ),
        pytest.param(
            {"spec": {"containers": [{}], "resources": {"requests": {"cpu": "1"}}}},
            {"NotTerminating", "NotBestEffort"},
            id="whole-pod",
        ),
        pytest.param(
            template(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}),
            {"NotTerminating", "NotBestEffort", "CrossNamespacePodAffinity"},
            id="affinity-to-another-namespace",
        ),
        pytest.param(
            template(
                affinity={
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": {}}}
                        ]
                    }
                }
            ),
            {"NotTerminating", "NotBestEffort", "CrossNamespacePodAffinity"},
            id="preferred-anti-affinity-to-all-namespaces",
        ),
        pytest.param(
            template(
                affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}
            ),
            {"NotTerminating", "NotBestEffort"},
            id="affinity-within-the-namespace",
        ),
        pytest.param({"spec": {"containers": "x", "affinity": 1}}, {"NotTerminating", "BestEffort"}, id="malformed"),
    ]
)
def test_the_scopes_of_a_template(given, scopes):
    assert from_template(given).scopes == scopes


@for_each_case(
    [
        pytest.param(quota(), {"high", "low", ""}, id="no-scope"),
        pytest.param(quota("NotTerminating", "NotBestEffort"), {"high", "low", ""}, id="both-scopes"),
        pytest.param(quota("NotTerminating", "BestEffort"), set(), id="one-of-two-scopes"),
        pytest.param(quota("PriorityClass"), {"high", "low"}, id="any-class"),
        pytest.param(quota("VolumeAttributesClass"), set(), id="scope-of-other-objects"),
        pytest.param(quota(scopeSelector={"matchExpressions": [classes("In", "high", "x")]}), {"high"}, id="in"),
        pytest.param(quota(scopeSelector={"matchExpressions": [classes("NotIn", "high")]}), {"low", ""}, id="not-in"),
        pytest.param(quota(scopeSelector={"matchExpressions": [classes("Exists")]}), {"high", "low"}, id="exists"),
        pytest.param(quota(scopeSelector={"matchExpressions": [classes("DoesNotExist")]}), {""}, id="does-not-exist"),
        pytest.param(quota(scopeSelector={"matchExpressions": [classes("Gt", "1")]}), set(), id="unknown-operator"),
        pytest.param(
            quota(scopeSelector={"matchExpressions": [classes("Exists"), classes("NotIn", "low")]}),
            {"high"},
            id="all-requirements",
        ),
        pytest.param(
            quota(scopeSelector={"matchExpressions": [{"scopeName": "NotTerminating", "operator": "Exists"}]}),
            {"high", "low", ""},
            id="selector-of-another-scope",
        ),
        pytest.param(quota(scopeSelector={"matchExpressions": []}), {"high", "low", ""}, id="empty-selector"),
        pytest.param(quota(scopeSelector={}), {"high", "low", ""}, id="selector-without-requirements"),
    ]
)
def test_a_quota_counts_pods_by_their_class(limits, counted):
    assert {name for name in ("high", "low", "") if counts(limits, PodTraits(priority_class=name))} == counted
