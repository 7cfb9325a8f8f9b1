"""Strategies for translated requests."""

from hypothesis import strategies as st

from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.engine.translation.requests import (
    MAX_CARDS,
    MAX_CPUS,
    MAX_MEBIBYTES,
    WHOLE_CARD,
    CpuBinding,
    GpuShare,
    Request,
)
from dra.model.koordinator_classes import QosClass


@st.composite
def cpu_bindings(draw: st.DrawFn) -> CpuBinding:
    """Draw a valid request for bound CPUs."""
    policy = draw(st.sampled_from([None, *CpuBindPolicy]))
    return CpuBinding(
        cpus=draw(st.integers(1, MAX_CPUS)),
        policy=policy,
        required=policy is not None and draw(st.booleans()),
        exclusivity=draw(st.sampled_from(CpuExclusivePolicy)),
        qos=draw(st.sampled_from([QosClass.LSE, QosClass.LSR])),
    )


@st.composite
def gpu_shares(draw: st.DrawFn) -> GpuShare:
    """Draw a valid request for shares of cards."""
    cards = draw(st.integers(1, MAX_CARDS))
    core = draw(st.none() | st.integers(1, WHOLE_CARD))
    in_bytes = draw(st.booleans())
    each = draw(st.integers(1, MAX_MEBIBYTES // cards if in_bytes else WHOLE_CARD))
    return GpuShare(
        cards=cards,
        core=core * cards if core else None,
        ratio=None if in_bytes else each * cards,
        memory_mebibytes=each * cards if in_bytes else None,
    )


def requests() -> st.SearchStrategy[Request]:
    """Return a strategy for valid requests."""
    return cpu_bindings() | gpu_shares()
