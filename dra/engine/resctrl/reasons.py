"""Reasons why L3 cache or memory bandwidth of a node is not divided as the strategy says: Events on the Node."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from dra.engine.messages.documentation import page_url
from dra.engine.messages.texts import Guidance
from dra.model.meta import Struct


class ResctrlCode(StrEnum):
    """The reason of an Event; the value of a label of a metric, too."""

    UNAVAILABLE = "ResctrlUnavailable"
    HOST_PIDS_HIDDEN = "ResctrlHostPIDsHidden"
    GROUPS_EXHAUSTED = "ResctrlGroupsExhausted"
    GROUP_TAKEN = "ResctrlGroupTaken"
    MASK_WIDENED = "ResctrlMaskWidened"
    STRATEGY_REFUSED = "ResctrlStrategyRefused"
    WRITE_REFUSED = "ResctrlWriteRefused"
    PODS_EXCLUDED = "ResctrlPodsExcluded"
    THREADS_UNREAD = "ResctrlThreadsUnread"
    TASKS_LEFT = "ResctrlTasksLeft"


class ResctrlReason(Struct, frozen=True):
    """One reason, with the text of its Event."""

    code: ResctrlCode
    text: str


_HOW_TO: Final = page_url("how-to/colocation.md")

RESCTRL_GUIDANCE: Final[Mapping[ResctrlCode, Guidance]] = {
    ResctrlCode.UNAVAILABLE: Guidance(
        "The node divides neither L3 cache nor memory bandwidth; all pods share them as before.",
        "The resctrl filesystem is not mounted, or the CPU or the kernel lacks it.",
        "The Event says what is missing. On machines that have it: `mount -t resctrl resctrl /sys/fs/resctrl`.",
    ),
    ResctrlCode.HOST_PIDS_HIDDEN: Guidance(
        "The plugin cannot tell which threads belong to which pod, so it divides nothing.",
        "The plugin's pod has a PID namespace of its own, or the node itself is a container.",
        f"Set `hostPID: true` in the plugin's DaemonSet, as {_HOW_TO} shows.",
    ),
    ResctrlCode.GROUPS_EXHAUSTED: Guidance(
        "Pods of the class stay in the root group, with all of the cache.",
        "Other tools hold the classes of service of the hardware (closids), or the machine has too few.",
        "The Event names the other groups. Remove those that are not used: `rmdir /sys/fs/resctrl/NAME`.",
    ),
    ResctrlCode.GROUP_TAKEN: Guidance(
        "The group is not written, and pods of the class stay where they are.",
        "Another tool has set the mode of the group, or its schemata are not readable as numbers.",
        "Find the tool; `cat /sys/fs/resctrl/NAME/mode` shows the mode.",
    ),
    ResctrlCode.MASK_WIDENED: Guidance(
        "The class gets more of the cache than its percentages say.",
        "The range is narrower than the smallest mask that the machine accepts.",
        "Widen `catRangeStartPercent` and `catRangeEndPercent`, if the classes shall not share the way.",
    ),
    ResctrlCode.STRATEGY_REFUSED: Guidance(
        "The percentage is not applied; what the group had before stays.",
        "The machine cannot express it: AMD below 10 %, a mount with `mba_MBps`, or a malformed `info` directory.",
        "The Event names the value. Correct it in the ConfigMap, for these nodes in `nodeStrategies`.",
    ),
    ResctrlCode.WRITE_REFUSED: Guidance(
        "The group keeps what it had; the plugin tries again.",
        "The kernel refused the write, for example since the ways overlap a group in mode exclusive.",
        "The Event has the kernel's reason; `cat /sys/fs/resctrl/info/last_cmd_status` shows the last one.",
    ),
    ResctrlCode.PODS_EXCLUDED: Guidance(
        "The pods share cache and bandwidth with the root group.",
        "They run in virtual machines (Kata Containers), whose threads are in cgroups of the runtime.",
        "Nothing is to be done. Keep such pods off nodes where the division matters.",
    ),
    ResctrlCode.THREADS_UNREAD: Guidance(
        "Some threads of the pod may be outside of its control group, and so have all of the cache.",
        "A container of the pod makes more than 1,000 cgroups, or nests them very deeply: not all of them are read.",
        "Delete the pod, or remove its right to create cgroups.",
    ),
    ResctrlCode.TASKS_LEFT: Guidance(
        "Some threads of pods stay in control groups of another tool.",
        "The container runtime or a tool such as pqos has put them there.",
        "The Event names the groups. Where the class shall count, remove the pod's RDT class.",
    ),
}
