"""CpuConfig says what it means, or is refused with the path of the field."""

from pathlib import Path

import pytest
import yaml

from dra.api.parameters.cpu import CpuConfig
from dra.api.parameters.cpu_policies import (
    NO_CPU_CONFIG,
    CpuBindPolicy,
    CpuExclusivePolicy,
    CpuSharing,
    NoCpuConfig,
    NumaAllocateStrategy,
)
from dra.api.parameters.opaque import MalformedParametersError, decode_parameters


def cpu_config(**fields):
    return {"apiVersion": "reserve.dra/v1alpha1", "kind": "CpuConfig"} | fields


def test_a_claim_without_parameters_gets_what_empty_ones_say():
    assert {name: getattr(CpuConfig(), name) for name in NoCpuConfig._fields} == NO_CPU_CONFIG._asdict()


def test_nothing_said_means_whole_cores_if_possible_in_the_fullest_place():
    config = decode_parameters(cpu_config(), CpuConfig)
    assert (config.bind_policy, config.required_bind_policy) == (CpuBindPolicy.FULL_PCPUS, None)
    assert (config.exclusivity, config.strategy) == (CpuExclusivePolicy.NONE, NumaAllocateStrategy.MOST_ALLOCATED)
    assert config.given_strategy is None
    assert config.shared_with is CpuSharing.NONE


def test_best_effort_containers_may_be_let_onto_the_cpus():
    assert decode_parameters(cpu_config(sharedWith="BestEffort"), CpuConfig).shared_with is CpuSharing.BEST_EFFORT
    with pytest.raises(MalformedParametersError, match=r"CpuConfig\.sharedWith: input should be 'None' or 'Best"):
        decode_parameters(cpu_config(sharedWith="Burstable"), CpuConfig)


def test_everything_can_be_said_in_koordinators_words():
    config = decode_parameters(
        cpu_config(
            requiredCPUBindPolicy="SpreadByPCPUs", preferredCPUExclusivePolicy="PCPULevel", strategy="LeastAllocated"
        ),
        CpuConfig,
    )
    assert config.bind_policy is config.required_bind_policy is CpuBindPolicy.SPREAD_BY_PCPUS
    assert (config.exclusivity, config.given_strategy) == (
        CpuExclusivePolicy.PCPU_LEVEL,
        NumaAllocateStrategy.LEAST_ALLOCATED,
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"cpuset": "0-3"}, "CpuConfig.cpuset: unknown field; known are ", id="unknown"),
        pytest.param({"required_bind_policy": "FullPCPUs"}, "required_bind_policy: unknown field", id="python-name"),
        pytest.param({"preferredCPUBindPolicy": "Full"}, "CpuConfig.preferredCPUBindPolicy: ", id="no-such-policy"),
        pytest.param(
            {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "FullPCPUs"},
            "not both",
            id="both",
        ),
        pytest.param({"strategy": None}, "CpuConfig.strategy: ", id="null"),
    ],
)
def test_anything_else_is_refused_by_name(fields, text):
    with pytest.raises(MalformedParametersError, match=text):
        decode_parameters(cpu_config(**fields), CpuConfig)


def test_the_example_is_what_it_says():
    example = Path(__file__).parents[4] / "examples/cpus/grouped.yaml"
    (claim,) = yaml.safe_load_all(example.read_text())
    (entry,) = claim["spec"]["devices"]["config"]
    config = decode_parameters(entry["opaque"]["parameters"], CpuConfig)
    assert config.required_bind_policy is CpuBindPolicy.FULL_PCPUS
    assert (config.exclusivity, config.strategy) == (
        CpuExclusivePolicy.NUMA_NODE_LEVEL,
        NumaAllocateStrategy.LEAST_ALLOCATED,
    )


def test_the_example_of_a_whole_node_shares_its_cores_with_best_effort():
    example = Path(__file__).parents[4] / "examples/cpus/node.yaml"
    claim, _ = yaml.safe_load_all(example.read_text())
    (entry,) = claim["spec"]["devices"]["config"]
    config = decode_parameters(entry["opaque"]["parameters"], CpuConfig)
    assert config.required_bind_policy is CpuBindPolicy.FULL_PCPUS
    assert config.shared_with is CpuSharing.BEST_EFFORT
    (request,) = claim["spec"]["devices"]["requests"]
    assert len(set(request["exactly"]["capacity"]["requests"].values())) == 1
