"""Placeholders of templates in Koordinator's form: claims of the same names and templates as those of owner pods."""

import pytest

from dra.engine.reservations import placeholders, reservation_info, statuses
from dra.engine.translation import template_names
from dra.engine.translation.translated_pods import translate
from tests.dra.engine.reservations.examples import reservation
from tests.dra.engine.translation.examples import QOS, RESOURCE_SPEC, container, gpus, lsr, pod, sidecar
from tests.dra.engine.translation.test_aligned_requests import aligned, training
from tests.dra.engine.translation.test_device_rules import hint
from tests.violations import combinations, for_each_case, named

PROD = {"priorityClassName": "koord-prod"}


def template(given):
    spec = {key: value for key, value in given["spec"].items() if key != "priority"}
    return {"metadata": given["metadata"], "spec": spec | PROD}


def entries(given):
    found = translate(given)
    assert found.refusals == ()
    return [(each.name, template_names.name_of(each.request)) for each in found.entries]


@for_each_case(
    combinations(
        [
            pytest.param(lsr("4"), id="bound-cpus"),
            pytest.param(lsr("1", "2", qos="LSE"), id="cpus-of-two-containers"),
            pytest.param(lsr("4", overhead={"cpu": "1", "memory": "100Mi"}), id="overhead-of-a-runtime-class"),
            pytest.param(
                lsr("1", resources={"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}, overhead={"cpu": "2"}),
                id="overhead-beside-cpus-of-the-whole-pod",
            ),
            pytest.param(
                lsr("4", annotations={RESOURCE_SPEC: '{"requiredCPUBindPolicy":"SpreadByPCPUs"}'}), id="bind-policy"
            ),
            pytest.param(lsr("2", init=(container("i", cpu="3"),)), id="greater-init-container"),
            pytest.param(
                lsr("1", "1", resources={"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}), id="cpus-of-the-whole-pod"
            ),
            pytest.param(
                pod(gpus("a", gpu="50"), init=(gpus("i", gpu="50"),)), id="init-container-with-cards-of-another"
            ),
            pytest.param(pod(gpus("a", gpu="50"), init=(gpus("i", gpu="80"),)), id="init-container-with-greater-cards"),
            pytest.param(pod(gpus(gpu="50")), id="half-a-card"),
            pytest.param(pod(gpus("a", gpu="50"), gpus("b", gpu="50")), id="two-halves-are-no-whole-card"),
            pytest.param(pod(container("a", cpu="1"), container("b"), gpus("c", memory="8Gi")), id="the-last-of-three"),
            pytest.param(pod(container("a"), init=(container("i"), gpus("j", gpu="100"))), id="init-container"),
            pytest.param(pod(container("a"), init=({**gpus("s", gpu="25"), "restartPolicy": "Always"},)), id="sidecar"),
            pytest.param(lsr("2", init=(sidecar("s", cpu="1"), gpus("j", gpu="100"))), id="cpus-and-gpus"),
            pytest.param(aligned(training({"gpu": "50"}, {"memory": "8Gi"})), id="cpus-and-gpus-of-one-numa-node"),
            pytest.param(aligned(pod(container("a"), gpus("b", gpu="200"))), id="gpus-of-one-numa-node"),
            pytest.param(pod(gpus("a", gpu="200"), annotations=hint("PCIe")), id="gpus-of-one-pcie-root"),
        ],
        named([False, True], ["replaced", "yielding"]),
    )
)
def test_a_placeholder_gets_the_claims_of_its_owner_pods(owner, yielding):
    held = reservation(template=template(owner))
    made = placeholders.first_manifest(held) if yielding else placeholders.placeholder_manifest(held)
    assert entries(made) == entries(owner)


def test_gpus_are_no_amount_of_a_node():
    asked = gpus("a", gpu="50")
    asked["resources"]["requests"]["memory"] = "1Gi"
    held = reservation(template=template(pod(asked)))
    assert reservation_info.reservation_requests(held).keys() == {"memory"}
    (main,) = placeholders.placeholder_manifest(held)["spec"]["containers"]
    assert main["resources"] == {
        "requests": {"memory": "1Gi", "koordinator.sh/gpu": "50"},
        "limits": {"koordinator.sh/gpu": "50"},
    }


def test_other_templates_make_one_container_without_a_cpu_limit():
    held = reservation(template=template(pod(container(cpu="2"), container("b", cpu="1"), qos="LS")))
    (main,) = placeholders.placeholder_manifest(held)["spec"]["containers"]
    assert main["resources"] == {"requests": {"cpu": "3"}}


def test_a_placeholder_over_running_pods_gets_no_cpus_of_its_own():
    held = reservation(template=template(lsr("4")), preAllocation=True, allocatePolicy="Restricted")
    made = placeholders.placeholder_manifest(held)
    assert made["metadata"]["labels"][QOS] == "LSR"
    assert entries(made) == []


def test_without_support_for_claims_the_amount_of_cpus_is_held():
    made = placeholders.placeholder_manifest(reservation(template=template(lsr("4"))), supports_claims=False)
    assert entries(made) == []
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        pytest.param(lsr("4"), True, id="bound"),
        pytest.param(pod(gpus(gpu="50")), True, id="gpus"),
        pytest.param(pod(container(cpu="1"), qos="LS"), False, id="neither"),
    ],
)
def test_owner_pods_that_take_over_claims_are_named_before_they_are_bound(given, named):
    held = reservation(template=template(given), allocateOnce=False)
    assert statuses.names_owner_before_binding(held) is named


@pytest.mark.parametrize(
    ("given", "names"),
    [
        pytest.param(lsr("4"), {"koord-cpu-4-default-lsr"}, id="bound"),
        pytest.param(
            pod(gpus(gpu="50"), gpus("b", gpu="25")), {"koord-gpu-c50-r50-s1", "koord-gpu-c25-r25-s1"}, id="gpus"
        ),
        pytest.param(
            pod(gpus(gpu="50"), resourceClaims=[{"name": "a", "resourceClaimTemplateName": "own"}]),
            {"koord-gpu-c50-r50-s1", "own"},
            id="beside-a-claim-of-the-template",
        ),
        pytest.param(pod(container(cpu="1")), set(), id="neither"),
        pytest.param(pod(gpus(gpu="150")), set(), id="without-a-translation"),
    ],
)
def test_a_reservation_knows_the_claims_of_its_owner_pods(given, names):
    """An owner pod that requests nothing but a claim uses the reservation because of the claim."""
    info = reservation_info.from_reservation(reservation(template=template(given)))
    assert {name for _, _, name in info.claims} == names
