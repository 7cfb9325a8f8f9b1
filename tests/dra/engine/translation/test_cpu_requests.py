"""Requests for bound CPUs: amounts, policies of the annotation resource-spec, and bad input (koordinator-rest.md 3)."""

from typing import Any

import pytest

from dra.engine.translation import template_names
from dra.engine.translation.translated_pods import change_refusals, translate
from tests.dra.engine.translation.examples import RESOURCE_SPEC, container, lsr, pod, sidecar
from tests.violations import combinations, for_each_case

ANNOTATION = f"metadata.annotations[{RESOURCE_SPEC}]"
NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"


def templates(given: dict[str, Any]) -> list[str]:
    found = translate(given)
    assert found.refusals == ()
    return [template_names.name_of(each.request) for each in found.entries]


def spec(text: str) -> dict[str, Any]:
    return lsr("4", annotations={RESOURCE_SPEC: text})


def cpus_of_pod(cpus: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpus}, "limits": {"cpu": cpus}}


@for_each_case(
    [
        pytest.param(lsr("1", "2"), ["koord-cpu-3-default-lsr"], id="13-sum-of-the-containers"),
        pytest.param(lsr("12", qos="LSE"), ["koord-cpu-12-default-lse"], id="lse"),
        pytest.param(
            pod(container(cpu="4"), container("b"), qos="LSR", priority=9500),
            ["koord-cpu-4-default-lsr"],
            id="a-container-without-cpu",
        ),
        pytest.param(
            lsr("2", init=(container("i", cpu="3"),)), ["koord-cpu-3-default-lsr"], id="greater-init-container"
        ),
        pytest.param(
            lsr("2", init=(container("i", cpu="1"),)), ["koord-cpu-2-default-lsr"], id="smaller-init-container"
        ),
        pytest.param(
            lsr("2", init=(sidecar("s", cpu="1"), container("i", cpu="4"))),
            ["koord-cpu-5-default-lsr"],
            id="init-container-after-a-sidecar",
        ),
        pytest.param(
            lsr("2", init=(container("i", cpu="3"), sidecar("s", cpu="2"))),
            ["koord-cpu-4-default-lsr"],
            id="init-container-before-a-sidecar",
        ),
        pytest.param(
            pod({"name": "a", "resources": {"limits": {"cpu": 2}}}, qos="LSR", priority=9500),
            ["koord-cpu-2-default-lsr"],
            id="the-limit-is-the-request-where-there-is-none",
        ),
        pytest.param(lsr("1", "1", resources=cpus_of_pod("4")), ["koord-cpu-4-default-lsr"], id="cpus-of-the-pod"),
        pytest.param(
            pod(container("a"), container("b"), qos="LSR", priority=9500, resources=cpus_of_pod("4")),
            ["koord-cpu-4-default-lsr"],
            id="cpus-of-the-pod-alone",
        ),
        pytest.param(
            lsr("500m", "250m", resources=cpus_of_pod("4")),
            ["koord-cpu-4-default-lsr"],
            id="containers-share-the-cpus-of-the-pod",
        ),
        pytest.param(
            pod(container("a"), qos="LSR", priority=9500, resources={"limits": {"cpu": "4"}}),
            ["koord-cpu-4-default-lsr"],
            id="the-limit-of-the-pod-is-its-request-where-there-is-none",
        ),
        pytest.param(
            lsr("1", "1", resources={"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}),
            ["koord-cpu-2-default-lsr"],
            id="the-request-of-the-pod-is-the-sum-of-its-containers",
        ),
        pytest.param(
            lsr("1", "1", resources={"requests": {"cpu": "4"}}),
            ["koord-cpu-4-default-lsr"],
            id="the-limit-of-the-pod-is-filled-in-where-all-containers-have-one",
        ),
        pytest.param(
            lsr("1500m", "500m", resources={"limits": {"memory": "1Gi"}}),
            ["koord-cpu-2-default-lsr"],
            id="both-of-the-pod-are-filled-in",
        ),
        pytest.param(
            pod(container(cpu="2"), container("b"), qos="LSR", priority=9500, resources={"limits": {"memory": "1Gi"}}),
            ["koord-cpu-2-default-lsr"],
            id="no-limit-is-filled-in-where-a-container-has-none",
        ),
        pytest.param(lsr("3", overhead={"cpu": "1"}), ["koord-cpu-4-default-lsr"], id="overhead-comes-on-top"),
        pytest.param(
            lsr("1", resources=cpus_of_pod("4"), overhead={"cpu": "1"}),
            ["koord-cpu-5-default-lsr"],
            id="overhead-comes-on-top-of-the-cpus-of-the-pod",
        ),
        pytest.param(lsr("3", overhead={"memory": "1Gi"}), ["koord-cpu-3-default-lsr"], id="overhead-without-cpus"),
        pytest.param(spec("{}"), ["koord-cpu-4-default-lsr"], id="no-policy"),
        pytest.param(spec('{"preferredCPUBindPolicy":"Default"}'), ["koord-cpu-4-default-lsr"], id="default"),
        pytest.param(
            spec('{"requiredCPUBindPolicy":"Default"}'), ["koord-cpu-4-default-required-lsr"], id="required-default"
        ),
        pytest.param(spec('{"preferredCPUBindPolicy":"FullPCPUs"}'), ["koord-cpu-4-full-lsr"], id="full"),
        pytest.param(spec('{"preferredCPUBindPolicy": "SpreadByPCPUs"}'), ["koord-cpu-4-spread-lsr"], id="spread"),
        pytest.param(
            spec('{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"SpreadByPCPUs"}'),
            ["koord-cpu-4-full-required-lsr"],
            id="required-wins",
        ),
        pytest.param(
            spec('{\n "preferredCPUExclusivePolicy": "PCPULevel",\n "preferredCPUBindPolicy": null\n}'),
            ["koord-cpu-4-default-pcpu-lsr"],
            id="exclusive-and-null",
        ),
        pytest.param(
            spec('{"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"NUMANodeLevel"}'),
            ["koord-cpu-4-spread-required-numa-lsr"],
            id="all-parts",
        ),
        pytest.param(spec('{"requiredCPUBindPolicy":""}'), ["koord-cpu-4-default-lsr"], id="an-empty-word-is-none"),
        pytest.param(spec('{"preferredCPUBindPolicy":"ConstrainedBurst"}'), [], id="constrained-burst-is-not-bound"),
        pytest.param(lsr("4", annotations={"reserve.dra/cpus": "own"}), [], id="own-claims"),
        pytest.param(lsr("1500m", annotations={"reserve.dra/cpus": "own"}), [], id="own-claims-and-any-request"),
        pytest.param(lsr("4", resourceClaims=[{"name": "koord-cpus"}]), [], id="translated-before"),
        pytest.param(pod(container(cpu="4"), qos="LS", priority=9500), [], id="ls-is-not-bound"),
        pytest.param(pod(container(cpu="4"), priority=9500), [], id="guaranteed-without-label-is-not-bound"),
        pytest.param(
            lsr("4", annotations={"kubernetes.io/config.mirror": "x"}), [], id="a-mirror-pod-can-have-no-claim"
        ),
    ],
)
def test_translation(given: dict[str, Any], expected: list[str]) -> None:
    assert templates(given) == expected


def test_each_container_refers_to_the_claim() -> None:
    (entry,) = translate(lsr("1", "2", init=(sidecar("s", cpu="1"), container("i")))).entries
    assert entry.name == "koord-cpus"
    assert entry.containers == (("containers", 0), ("containers", 1), ("initContainers", 0), ("initContainers", 1))


FIELDS = "requiredCPUBindPolicy, preferredCPUBindPolicy, preferredCPUExclusivePolicy"
MALFORMED = f"{ANNOTATION}: must be a JSON object with the fields {FIELDS}, each at most once"
BIND_WORDS = "must be one of Default, FullPCPUs, SpreadByPCPUs, ConstrainedBurst"


@for_each_case(
    combinations(
        [
            pytest.param("", [MALFORMED], id="empty"),
            pytest.param("FullPCPUs", [MALFORMED], id="no-json"),
            pytest.param("[]", [MALFORMED], id="no-object"),
            pytest.param("null", [MALFORMED], id="null"),
            pytest.param('{"preferredCPUBindPolicy":"FullPCPUs",}', [MALFORMED], id="trailing-comma"),
            pytest.param('{"preferredCPUBindPolicy":"FullPCPUs"}\n\v', [MALFORMED], id="other-white-space"),
            pytest.param('{"preferredCPUBindPolicy":true}', [MALFORMED], id="no-word"),
            pytest.param('{"preferredCPUBindPolicy":"Full\\u0050CPUs"}', [MALFORMED], id="escape"),
            pytest.param(
                '{"preferredCPUBindPolicy":"Default","preferredCPUBindPolicy":"Default"}', [MALFORMED], id="twice"
            ),
            pytest.param(
                '{"bindPolicy":"FullPCPUs"}',
                [f"{ANNOTATION}.bindPolicy: unknown field; known are {FIELDS}"],
                id="field",
            ),
            pytest.param(
                '{"preferredCPUBindPolicy":"fullpcpus","preferredCPUExclusivePolicy":"Core"}',
                [
                    f"{ANNOTATION}.preferredCPUBindPolicy: {BIND_WORDS}",
                    f"{ANNOTATION}.preferredCPUExclusivePolicy: must be one of None, PCPULevel, NUMANodeLevel",
                ],
                id="policies",
            ),
        ],
        ["LSR", "LS"],
    )
)
def test_a_bad_resource_spec_is_refused_with_its_path(text: str, expected: list[str], qos: str) -> None:
    assert [str(each) for each in translate(lsr("4", qos=qos, annotations={RESOURCE_SPEC: text})).refusals] == expected


def test_a_bad_numa_topology_spec_is_refused_with_its_path() -> None:
    given = lsr("4", annotations={NUMA_SPEC: '{"numaTopologyPolicy":"Single"}'})
    assert [each.path for each in translate(given).refusals] == [
        f"metadata.annotations[{NUMA_SPEC}].numaTopologyPolicy"
    ]


WHOLE = "the requested CPUs of LSR Pod must be integer, from 0 to 9999"
EQUAL = "must equal requests.cpu: the CPUs of LSR Pod are its own; set both to the same number"


def test_overhead_is_of_whole_cpus_and_counts_against_the_most_that_a_pod_has() -> None:
    (refusal,) = translate(lsr("3", overhead={"cpu": "250m"})).refusals
    assert str(refusal) == f"spec.overhead.cpu: {WHOLE}"
    assert templates(lsr("9998", overhead={"cpu": "1"})) == ["koord-cpu-9999-default-lsr"]
    (refusal,) = translate(lsr("9999", overhead={"cpu": "1"})).refusals
    assert refusal.path == "spec.containers"
    assert templates(pod(container(cpu="1500m"), overhead={"cpu": "250m"})) == [], "of a pod that is not bound"


@pytest.mark.parametrize(
    ("resources", "refusal"),
    [
        pytest.param(cpus_of_pod("4500m"), f"spec.resources.requests.cpu: {WHOLE}", id="half-a-cpu"),
        pytest.param(
            {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}, f"spec.resources.limits.cpu: {EQUAL}", id="burst"
        ),
        pytest.param({"limits": {"cpu": "4"}}, f"spec.resources.limits.cpu: {EQUAL}", id="request-of-the-containers"),
    ],
)
def test_cpus_of_a_pod_that_cannot_be_bound_are_refused(resources: dict[str, Any], refusal: str) -> None:
    assert [str(each) for each in translate(lsr("1", "1", resources=resources)).refusals] == [refusal]


RESIZED = "the CPUs of a Pod are as many as its claim has; create a new pod to change the number"
BOUND: dict[str, Any] = {
    "resourceClaims": [{"name": "koord-cpus", "resourceClaimTemplateName": "koord-cpu-2-default-lsr"}]
}


@for_each_case(
    [
        pytest.param(
            lsr("2", **BOUND),
            lsr("4", **BOUND),
            ["spec.containers[0].resources.requests.cpu", "spec.containers[0].resources.limits.cpu"],
            id="more-cpus",
        ),
        pytest.param(lsr("2", **BOUND), lsr("2000m", **BOUND), [], id="the-same-number"),
        pytest.param(
            lsr("1", resources=cpus_of_pod("2"), **BOUND),
            lsr("1", resources=cpus_of_pod("4"), **BOUND),
            ["spec.resources.requests.cpu", "spec.resources.limits.cpu"],
            id="more-cpus-of-the-pod",
        ),
        pytest.param(
            lsr("2", init=(sidecar("s", cpu="1"),), **BOUND),
            lsr("2", init=(sidecar("s", cpu="2"),), **BOUND),
            ["spec.initContainers[0].resources.requests.cpu", "spec.initContainers[0].resources.limits.cpu"],
            id="more-cpus-of-a-sidecar",
        ),
        pytest.param(
            lsr("2", resourceClaims=[{"name": "koord-numa"}]),
            lsr("1", resourceClaims=[{"name": "koord-numa"}]),
            ["spec.containers[0].resources.requests.cpu", "spec.containers[0].resources.limits.cpu"],
            id="fewer-aligned-cpus",
        ),
        pytest.param(lsr("2"), lsr("4"), [], id="without-a-claim"),
        pytest.param(
            pod(container(cpu="2", memory="1Gi"), **BOUND),
            pod(container(cpu="2", memory="2Gi"), **BOUND),
            [],
            id="memory",
        ),
    ]
)
def test_a_pod_with_bound_cpus_is_not_resized(old: dict[str, Any], new: dict[str, Any], paths: list[str]) -> None:
    assert [str(each) for each in change_refusals(old, new)] == [f"{path}: {RESIZED}" for path in paths]


def test_a_request_of_a_pod_without_a_limit_is_refused() -> None:
    given = pod(container(cpu="2"), container("b"), qos="LSR", priority=9500, resources={"requests": {"cpu": "4"}})
    assert [str(each) for each in translate(given).refusals] == [f"spec.resources.limits.cpu: {EQUAL}"]
