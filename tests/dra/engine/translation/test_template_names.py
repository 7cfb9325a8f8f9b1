"""Names of templates: one name for each request, and no other text is a name."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.engine.translation.requests import CpuBinding, DeviceTopologyScope, GpuShare, Request
from dra.engine.translation.template_names import name_of, parse
from dra.model.koordinator_classes import QosClass
from tests.dra.engine.translation.strategies import requests
from tests.violations import for_each_case

FULL, SPREAD = CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.SPREAD_BY_PCPUS
PCPU, NUMA = CpuExclusivePolicy.PCPU_LEVEL, CpuExclusivePolicy.NUMA_NODE_LEVEL
LSE, LSR = QosClass.LSE, QosClass.LSR

NAMES = [
    ("koord-cpu-4-default-lsr", CpuBinding(cpus=4, qos=LSR)),
    ("koord-cpu-4-full-lse", CpuBinding(cpus=4, policy=FULL, qos=LSE)),
    ("koord-cpu-12-spread-required-lse", CpuBinding(cpus=12, policy=SPREAD, required=True, qos=LSE)),
    ("koord-cpu-2-default-pcpu-lsr", CpuBinding(cpus=2, exclusivity=PCPU, qos=LSR)),
    ("koord-cpu-4-default-required-lsr", CpuBinding(cpus=4, required=True, qos=LSR)),
    ("koord-cpu-2-full-required-numa-lsr", CpuBinding(cpus=2, policy=FULL, required=True, exclusivity=NUMA, qos=LSR)),
    ("koord-gpu-c50-r50-s1", GpuShare(core=50, ratio=50, cards=1)),
    ("koord-gpu-c200-r200-s2", GpuShare(core=200, ratio=200, cards=2)),
    ("koord-gpu-m8192-s1", GpuShare(memory_mebibytes=8192, cards=1)),
    ("koord-gpu-c100-m65536-s2", GpuShare(core=100, memory_mebibytes=65536, cards=2)),
    ("koord-gpu-r25-s1", GpuShare(ratio=25, cards=1)),
    ("koord-gpu-c200-r200-s2-pcie", GpuShare(core=200, ratio=200, cards=2, scope=DeviceTopologyScope.PCIE)),
    ("koord-gpu-r400-s4-numa", GpuShare(ratio=400, cards=4, scope=DeviceTopologyScope.NUMA_NODE)),
]


@pytest.mark.parametrize(("name", "request_"), NAMES, ids=[name for name, _ in NAMES])
def test_a_name_spells_a_request(name: str, request_: Request) -> None:
    assert name_of(request_) == name
    assert parse(name) == request_


@for_each_case(
    [
        pytest.param("", id="empty"),
        pytest.param("koord-cpu-0-full-lsr", id="no-cpu"),
        pytest.param("koord-cpu-04-full-lsr", id="leading-zero"),
        pytest.param("koord-cpu-10000-full-lsr", id="too-many-cpus"),
        pytest.param("koord-cpu-4-full-numa-required-lsr", id="other-order"),
        pytest.param("koord-cpu-4-full-ls", id="class-without-binding"),
        pytest.param("koord-cpu-4-full-lsr\n", id="line-break"),
        pytest.param("koord-cpu-\u0664-full-lsr", id="digits-of-another-script"),
        pytest.param("koord-gpu-c50-s1", id="core-alone"),
        pytest.param("koord-gpu-c50-r50", id="no-cards"),
        pytest.param("koord-gpu-r50-m8192-s1", id="ratio-and-bytes"),
        pytest.param("koord-gpu-r101-s1", id="more-than-a-card"),
        pytest.param("koord-gpu-c101-m1-s1", id="more-core-than-a-card"),
        pytest.param("koord-gpu-r101-s2", id="no-multiple-of-the-cards"),
        pytest.param("koord-gpu-m3-s2", id="bytes-no-multiple-of-the-cards"),
        pytest.param("koord-gpu-r3300-s33", id="more-cards-than-a-claim-has"),
        pytest.param("koord-gpu-r100-s1-pcie", id="a-scope-of-one-card"),
        pytest.param("koord-gpu-r100-s2-pcie", id="a-scope-of-parts-of-cards"),
        pytest.param("koord-gpu-m8192-s2-numa", id="a-scope-of-bytes"),
        pytest.param("koord-numa-best.cpu-4-full-lsr.gpu-0-r200-s2-pcie", id="a-scope-beside-best-effort"),
        pytest.param("koord-numa-single.gpu-0-r200-s2-pcie.gpu-1-r100-s1", id="a-scope-of-two-containers"),
        pytest.param("koord-gpu-m8796093022208-s1", id="more-bytes-than-a-quantity-has"),
    ],
)
def test_other_texts_are_no_names(name: str) -> None:
    assert parse(name) is None


@given(request_=requests())
def test_each_request_has_one_name_that_an_object_can_have(request_: Request) -> None:
    assert request_.is_valid
    name = name_of(request_)
    assert parse(name) == request_
    label = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert re.fullmatch(rf"{label}(\.{label})*", name), "a DNS subdomain"
    assert len(name) <= 253


@given(name=st.from_regex(r"koord-(cpu|gpu)(-[a-z]*[0-9]{0,4}){1,5}", fullmatch=True))
def test_what_is_parsed_has_that_name(name: str) -> None:
    request = parse(name)
    assert request is None or name_of(request) == name
