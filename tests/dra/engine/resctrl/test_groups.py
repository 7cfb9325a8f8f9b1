"""Control groups of pods, by their QoS class."""

import pytest

from dra.engine.resctrl.groups import ResctrlGroup, resctrl_group, runs_in_virtual_machine
from dra.model.koordinator_classes import LABEL_QOS_CLASS
from dra.model.meta import ObjectMeta
from dra.model.pods import Pod
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param("LSE", "Guaranteed", ResctrlGroup.LSR, id="LSE"),
        pytest.param("LSR", "Guaranteed", ResctrlGroup.LSR, id="LSR"),
        pytest.param("LS", "Guaranteed", ResctrlGroup.LS, id="LS"),
        pytest.param("BE", "Burstable", ResctrlGroup.BE, id="BE-although-the-kubelet-sees-another-class"),
        pytest.param("SYSTEM", "Burstable", None, id="SYSTEM-stays-in-the-root"),
        pytest.param(None, "Guaranteed", ResctrlGroup.LSR, id="no-label-guaranteed"),
        pytest.param(None, "Burstable", ResctrlGroup.LS, id="no-label-burstable"),
        pytest.param(None, "BestEffort", ResctrlGroup.BE, id="no-label-best-effort"),
        pytest.param("lsr", "BestEffort", ResctrlGroup.BE, id="unknown-label"),
        pytest.param(None, "", None, id="class-not-known-yet"),
    ]
)
def test_the_label_decides_and_then_kubernetes_class(label, kubernetes_qos, group):
    pod = Pod(metadata=ObjectMeta(name="a", labels={LABEL_QOS_CLASS: label} if label else None))
    assert resctrl_group(pod, kubernetes_qos=kubernetes_qos) is group


@pytest.mark.parametrize(("name", "is_one"), [("kata-qemu", True), ("Kata", True), ("", False), ("nvidia", False)])
def test_pods_of_kata_are_known_by_their_runtime_class(name, is_one):
    assert runs_in_virtual_machine(name) is is_one
