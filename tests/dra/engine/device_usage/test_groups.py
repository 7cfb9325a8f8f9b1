"""Devices by namespace, workload and class: what counts as used, and how many series there can be."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.device_usage.groups import (
    GROUPS_IN_NAMESPACE_MAX,
    GROUPS_MAX,
    NAMESPACES_MAX,
    NONE,
    OTHER,
    STEP_CLAIMS,
    DeviceNumbers,
    UsageGroup,
    count_groups,
    count_groups_in_steps,
    limit_groups,
    request_classes,
)
from dra.engine.steps import finish
from tests.dra.engine.examples import JOB, allocation, claim, observe_all, pod

REQUESTS = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}
TRAIN = UsageGroup("ml", "jobs.batch/train", "gpus")


def asking(found, requests=REQUESTS):
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, devices=requests))


def counted(*objects, is_active=lambda _: None):
    cache = ClaimCache()
    observe_all(cache, *objects)
    return count_groups(cache.records(), is_active)


HELD = asking(claim(workload=JOB, allocation=allocation("gpu-0", "gpu-1"), list=[JOB]))


@pytest.mark.parametrize(
    ("pods", "active", "used"),
    [
        pytest.param([], None, 0, id="no-pod"),
        pytest.param([pod("a")], None, 0, id="a-pod-that-waits"),
        pytest.param([pod("a", node="n1")], None, 2, id="a-bound-pod"),
        pytest.param([pod("a", node="n1")], {"gpu-0"}, 1, id="a-gpu-that-computes-nothing"),
        pytest.param([], {"gpu-0", "gpu-1"}, 0, id="use-without-pods-is-not-the-claims"),
    ],
)
def test_a_device_is_used_by_pods_unless_it_is_known_to_compute_nothing(pods, active, used):
    is_active = (lambda _: None) if active is None else (lambda result: result.device in active)
    assert counted(HELD, *pods, is_active=is_active) == {TRAIN: DeviceNumbers(2, used)}


def test_devices_count_once_for_each_group_and_observed_ones_not():
    shared = allocation("gpu-0")
    observed = allocation("gpu-7")
    (result,) = observed.devices.results
    observed.devices.results[0] = msgspec.structs.replace(result, admin_access=True)
    assert counted(
        asking(claim("a", allocation=shared)), asking(claim("b", allocation=shared)), claim("c", allocation=observed)
    ) == {UsageGroup("ml", NONE, "gpus"): DeviceNumbers(1, 0)}


def test_each_device_has_the_class_of_its_own_request():
    requests = {
        "requests": [
            {"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "h100"}, {"name": "small"}]},
            {"name": "nic", "exactly": {"deviceClassName": "rdma"}},
        ]
    }
    assert request_classes(asking(claim(), requests)) == {"gpu/big": "h100", "gpu/small": "", "nic": "rdma"}


def test_the_class_of_a_reduced_claim_is_not_known():
    assert counted(claim(allocation=allocation())) == {UsageGroup("ml", NONE, NONE): DeviceNumbers(1, 0)}


def test_many_claims_are_counted_in_steps_with_the_same_result():
    cache = ClaimCache()
    observe_all(cache, *(claim(f"c-{number}", allocation=allocation()) for number in range(3 * STEP_CLAIMS)))
    steps = count_groups_in_steps(cache.records(), lambda _: None)
    assert sum(1 for _ in steps) == 4
    assert count_groups(cache.records(), lambda _: None) == {UsageGroup("ml", NONE, NONE): DeviceNumbers(1, 0)}


def test_claims_may_go_while_they_are_counted():
    cache = ClaimCache()
    claims = [claim(f"c-{number}", allocation=allocation()) for number in range(2 * STEP_CLAIMS)]
    observe_all(cache, *claims)
    steps = count_groups_in_steps(cache.records(), lambda _: None)
    next(steps)
    for gone in claims:
        cache.forget_claim((gone.metadata.namespace, gone.metadata.name), gone.metadata.uid)
    assert finish(steps) == {UsageGroup("ml", NONE, NONE): DeviceNumbers(1, 0)}


def groups_of(**namespaces):
    return {
        UsageGroup(namespace, f"jobs.batch/{place}", "gpus"): DeviceNumbers(held, 0)
        for namespace, sizes in namespaces.items()
        for place, held in enumerate(sizes)
    }


def test_a_namespace_with_very_many_workloads_takes_no_place_of_others():
    limited = limit_groups(groups_of(greedy=[9] * 500, modest=[1]))
    assert limited[UsageGroup("modest", "jobs.batch/0", "gpus")].held == 1
    assert limited[UsageGroup("greedy", OTHER, OTHER)].held == 9 * (500 - GROUPS_IN_NAMESPACE_MAX)


def test_the_rest_of_very_many_namespaces_is_one_group():
    limited = limit_groups({UsageGroup(f"n{place}", NONE, "gpus"): DeviceNumbers(1, 1) for place in range(1000)})
    assert len(limited) <= GROUPS_MAX + NAMESPACES_MAX + 1
    assert limited[UsageGroup(OTHER, OTHER, OTHER)] == DeviceNumbers(800, 800)


@given(
    st.dictionaries(
        st.builds(UsageGroup, st.sampled_from("abc"), st.text("xyz", min_size=1), st.sampled_from("gh")),
        st.builds(DeviceNumbers, st.integers(1, 9), st.integers(0, 9)),
        max_size=200,
    )
)
def test_sums_stay_what_they_are(groups):
    limited = limit_groups(groups)
    assert [sum(column) for column in zip(*limited.values(), strict=True)] == [
        sum(column) for column in zip(*groups.values(), strict=True)
    ]
