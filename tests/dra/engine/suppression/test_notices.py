"""What people are told about batch pods on a node."""

import pytest

from dra.api.colocation.strategies import SuppressPolicy
from dra.engine.suppression.decide import Suppression, SuppressionLevel
from dra.engine.suppression.notices import BatchPodFacts, describe_facts
from tests.violations import for_each_case

FLOOR = Suppression(level=SuppressionLevel.FLOOR, policy=SuppressPolicy.CFS_QUOTA, quota=20000)
HELD_BACK = Suppression(level=SuppressionLevel.HELD_BACK, policy=SuppressPolicy.CFS_QUOTA, quota=20000)


@for_each_case(
    [
        pytest.param(BatchPodFacts(), {}, id="nothing"),
        pytest.param(BatchPodFacts(suppression=HELD_BACK), {}, id="held-back-as-configured"),
        pytest.param(
            BatchPodFacts(reset=["besteffort", "a", "b", "c", "d"]),
            {"BatchPodValuesReset": "cgroup besteffort, a, b and 2 more: another process replaced"},
            id="reset-by-others",
        ),
        pytest.param(
            BatchPodFacts(refused=["quota 5000: Invalid argument"]),
            {"BatchPodWritesRefused": "tried again: quota 5000: Invalid argument"},
            id="refused",
        ),
        pytest.param(
            BatchPodFacts(refused=["quota 5000: Invalid argument"], partly_read=["besteffort/pod1"]),
            {
                "BatchPodWritesRefused": "tried again: quota 5000: Invalid argument",
                "BatchPodCgroupsUnread": "cgroup besteffort/pod1: has more cgroups below it",
            },
            id="refused-because-of-what-was-not-read",
        ),
        pytest.param(BatchPodFacts(partly_read=["besteffort/pod1"]), {}, id="not-read-and-not-in-the-way"),
        pytest.param(
            BatchPodFacts(memory_over_limit=["besteffort/pod1"]),
            {"BatchMemoryOverLimit": "its processes are not ended"},
            id="memory-in-use",
        ),
        pytest.param(BatchPodFacts(suppression=FLOOR), {"BatchPodsAtFloor": "not sampled for a minute"}, id="floor"),
        pytest.param(
            BatchPodFacts(suppression=HELD_BACK, policy=SuppressPolicy.CPUSET),
            {"BatchPodsHeldBackByQuota": "by quota in place of cpuset"},
            id="no-writer-of-cpusets",
        ),
        pytest.param(
            BatchPodFacts(policy=SuppressPolicy.CPUSET), {}, id="nobody-is-held-back-so-the-policy-does-not-matter"
        ),
        pytest.param(
            BatchPodFacts(fractions=["default/job"], outside=["default/mixed"], idle=["besteffort/pod2"]),
            {
                "BatchPodSharesIdle": "cgroup besteffort/pod2: cpu.idle is set",
                "BatchCPUFraction": "pod default/job: batch-cpu counts milli-CPUs and is rounded up to a whole number; "
                'write "200", not "200m"',
                "BatchPodNotLimited": "pod default/mixed: requests cpu or memory beside batch resources",
            },
            id="flaws-of-pods",
        ),
    ]
)
def test_what_is_told(facts, told):
    notices = {notice.reason.value: notice.text for notice in describe_facts(facts)}
    assert notices.keys() == told.keys()
    for reason, part in told.items():
        assert part in notices[reason]
        assert not notices[reason].endswith(".")
