"""Reasons why L3 cache or memory bandwidth of a node is not divided as the strategy says: Events on the Node."""

from typing import Final

from dra.engine.messages.documentation import page_url
from dra.engine.messages.texts import ExplainedReason, explain
from dra.model.meta import Struct

_HOW_TO: Final = page_url("how-to/colocation.md")


class ResctrlCode(ExplainedReason):
    """The reason of an Event; the value of a label of a metric, too."""

    UNAVAILABLE = explain(
        "ResctrlUnavailable",
        "The node divides neither L3 cache nor memory bandwidth; all pods share them as before.",
        "The resctrl filesystem is not mounted, or the CPU or the kernel lacks it.",
        "The Event says what is missing. On machines that have it: `mount -t resctrl resctrl /sys/fs/resctrl`.",
    )
    HOST_PIDS_HIDDEN = explain(
        "ResctrlHostPIDsHidden",
        "The plugin cannot tell which threads belong to which pod, so it divides nothing.",
        "The plugin's pod has a PID namespace of its own, or the node itself is a container.",
        f"Set `hostPID: true` in the plugin's DaemonSet, as {_HOW_TO} shows.",
    )
    GROUPS_EXHAUSTED = explain(
        "ResctrlGroupsExhausted",
        "Pods of the class stay in the root group, with all of the cache.",
        "Other tools hold the classes of service of the hardware (closids), or the machine has too few.",
        "The Event names the other groups. Remove those that are not used: `rmdir /sys/fs/resctrl/NAME`.",
    )
    GROUP_TAKEN = explain(
        "ResctrlGroupTaken",
        "The group is not written, and pods of the class stay where they are.",
        "Another tool has set the mode of the group, or its schemata are not readable as numbers.",
        "Find the tool; `cat /sys/fs/resctrl/NAME/mode` shows the mode.",
    )
    MASK_WIDENED = explain(
        "ResctrlMaskWidened",
        "The class gets more of the cache than its percentages say.",
        "The range is narrower than the smallest mask that the machine accepts.",
        "Widen `catRangeStartPercent` and `catRangeEndPercent`, if the classes shall not share the way.",
    )
    STRATEGY_REFUSED = explain(
        "ResctrlStrategyRefused",
        "The percentage is not applied; what the group had before stays.",
        "The machine cannot express it: AMD below 10 %, a mount with `mba_MBps`, or a malformed `info` directory.",
        "The Event names the value. Correct it in the ConfigMap, for these nodes in `nodeStrategies`.",
    )
    WRITE_REFUSED = explain(
        "ResctrlWriteRefused",
        "The group keeps what it had; the plugin tries again.",
        "The kernel refused the write, for example since the ways overlap a group in mode exclusive.",
        "The Event has the kernel's reason; `cat /sys/fs/resctrl/info/last_cmd_status` shows the last one.",
    )
    PODS_EXCLUDED = explain(
        "ResctrlPodsExcluded",
        "The pods share cache and bandwidth with the root group.",
        "They run in virtual machines (Kata Containers), whose threads are in cgroups of the runtime.",
        "Nothing is to be done. Keep such pods off nodes where the division matters.",
    )
    THREADS_UNREAD = explain(
        "ResctrlThreadsUnread",
        "Some threads of the pod may be outside of its control group, and so have all of the cache.",
        "A container of the pod makes more than 1,000 cgroups, or nests them very deeply: not all of them are read.",
        "Delete the pod, or remove its right to create cgroups.",
    )
    TASKS_LEFT = explain(
        "ResctrlTasksLeft",
        "Some threads of pods stay in control groups of another tool.",
        "The container runtime or a tool such as pqos has put them there.",
        "The Event names the groups. Where the class shall count, remove the pod's RDT class.",
    )


class ResctrlReason(Struct, frozen=True):
    """One reason, with the text of its Event."""

    code: ResctrlCode
    text: str
