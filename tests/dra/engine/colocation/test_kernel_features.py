"""Features of kernels, as NodeMetrics report them."""

from dra.engine.colocation.kernel_features import TEXT_MAX, FeatureName, KernelFacts, kernel_features
from dra.engine.resctrl.tree import ResctrlTree
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import FakeKernel


def features(facts):
    return {feature.name: (feature.usable, feature.text) for feature in kernel_features(facts)}


def test_a_kernel_with_everything():
    facts = KernelFacts(
        files={name: f"{name}.file" for name in FeatureName if name is not FeatureName.RESCTRL},
        cgroups="v2",
        resctrl=FakeKernel(machines.INTEL).read_tree(),
    )
    assert features(facts) == {
        "cpuQuota": (True, "cgroup v2: cpuQuota.file"),
        "cpuBurst": (True, "cgroup v2: cpuBurst.file"),
        "cpuset": (True, "cgroup v2: cpuset.file"),
        "cpuPressure": (True, "cgroup v2: cpuPressure.file"),
        "resctrl": (
            True,
            (
                "L3 cache: 10 ways, at least 1, 2 domains; memory bandwidth: from 10 % in steps of 10 %, 2 domains; "
                "control groups: 0 ours, 0 others, 7 free"
            ),
        ),
    }


def test_a_kernel_with_nothing_says_what_does_not_work():
    facts = KernelFacts(files={}, cgroups="v1", resctrl=ResctrlTree())
    assert features(facts) == {
        "cpuQuota": (False, "cgroup v1: no file for it, so batch pods cannot be held back by a quota"),
        "cpuBurst": (False, "cgroup v1: no file for it, so containers have no burst"),
        "cpuset": (False, "cgroup v1: no file for it, so batch pods cannot be held back by cpusets"),
        "cpuPressure": (False, "cgroup v1: no file for it, so the pressure of pods on CPUs is not reported"),
        "resctrl": (False, "the kernel or the CPU has no resctrl, so L3 cache and memory bandwidth are not divided"),
    }


def test_a_text_has_a_bound():
    tree = ResctrlTree(mounted=True, info={"L3": {"cbm_mask": "x" * 5000}})
    assert all(
        len(text) <= TEXT_MAX for _, text in features(KernelFacts(files={}, cgroups="v1", resctrl=tree)).values()
    )
