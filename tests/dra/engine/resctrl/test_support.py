"""Texts about what a machine can divide."""

import pytest

from dra.engine.resctrl.support import resctrl_support
from dra.engine.resctrl.tree import ResctrlTree
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import FakeKernel
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(
            machines.INTEL,
            "L3 cache: 10 ways, at least 1, 2 domains; memory bandwidth: from 10 % in steps of 10 %, 2 domains; "
            "control groups: 0 ours, 0 others, 7 free",
            id="intel",
        ),
        pytest.param(
            machines.AMD_SPARSE,
            "L3 cache: 16 ways, at least 1, 16 domains; memory bandwidth: from 10 %, in 1/8 GB/s, 16 domains; "
            "control groups: 0 ours, 0 others, 15 free",
            id="amd-with-sparse-ids",
        ),
        pytest.param(
            machines.CDP,
            "L3 cache: 20 ways, at least 1, code and data apart (CDP), 2 domains; memory bandwidth: from 10 % in steps "
            "of 10 %, 2 domains; control groups: 0 ours, 0 others, 7 free",
            id="code-and-data-apart",
        ),
        pytest.param(
            machines.MEGABYTES,
            "L3 cache: 10 ways, at least 1, 2 domains; memory bandwidth: not limited, since the mount counts MB/s "
            "(mba_MBps); control groups: 0 ours, 0 others, 7 free",
            id="megabytes",
        ),
        pytest.param(
            machines.CACHE_ONLY,
            "L3 cache: 10 ways, at least 1, 2 domains; memory bandwidth: cannot be limited; "
            "control groups: 0 ours, 0 others, 15 free",
            id="cache-only",
        ),
        pytest.param(
            machines.ZERO_MASK,
            "L3 cache: not divided, cbm_mask 0 is not a row of ways; memory bandwidth: cannot be limited; "
            "control groups: 0 ours, 0 others, 15 free",
            id="empty-mask",
        ),
        pytest.param(
            machines.L2_ONLY, "resctrl divides neither L3 cache nor memory bandwidth on this machine", id="l2-only"
        ),
    ]
)
def test_a_mounted_filesystem_is_described(machine, text):
    assert resctrl_support(FakeKernel(machine).read_tree()) == text


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        pytest.param(ResctrlTree(), "the kernel or the CPU has no resctrl", id="nothing"),
        pytest.param(ResctrlTree(supported=True), "mount -t resctrl resctrl /sys/fs/resctrl", id="not-mounted"),
    ],
)
def test_what_is_missing_is_named(tree, text):
    assert text in resctrl_support(tree)
