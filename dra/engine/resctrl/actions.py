"""Steps that change the resctrl filesystem, and the reason that a refused step gives."""

import errno
from typing import TypeAlias

from dra.engine.resctrl.groups import ResctrlGroup
from dra.engine.resctrl.reasons import ResctrlCode, ResctrlReason
from dra.model.meta import Struct


class RecordGroups(Struct, frozen=True):
    """Write down which groups are ours, as a whole; none: the record is removed."""

    groups: frozenset[ResctrlGroup]


class MakeGroup(Struct, frozen=True):
    """Make a control group."""

    group: ResctrlGroup


class WriteLine(Struct, frozen=True):
    """Write one line to the ``schemata`` of a group: a refused line keeps no other one from its place."""

    group: ResctrlGroup
    line: str


class MoveTasks(Struct, frozen=True):
    """Write the ids of threads to the ``tasks`` of a group, one id a write."""

    group: ResctrlGroup
    tasks: tuple[int, ...]


ResctrlAction: TypeAlias = RecordGroups | MakeGroup | WriteLine | MoveTasks


def refusal(action: ResctrlAction, *, error: int, text: str) -> ResctrlReason | None:
    """Return the reason for a step that failed with an errno, or None where that is in order.

    Threads end at any time (ESRCH), and so does a group when somebody removes it (ENOENT): the next decision sees it.
    """
    if error == errno.ENOENT or (error == errno.ESRCH and isinstance(action, MoveTasks)):
        return None
    match action:
        case RecordGroups():
            return ResctrlReason(ResctrlCode.WRITE_REFUSED, f"resctrl: the record of groups is not written: {text}")
        case MakeGroup(group):
            code = ResctrlCode.GROUPS_EXHAUSTED if error == errno.ENOSPC else ResctrlCode.WRITE_REFUSED
            return ResctrlReason(
                code, f"resctrl group {group}: cannot be made, its pods stay in the root group: {text}"
            )
        case WriteLine(group, line):
            return ResctrlReason(ResctrlCode.WRITE_REFUSED, f"resctrl group {group}: {line.strip()} is refused: {text}")
        case MoveTasks(group):
            return ResctrlReason(ResctrlCode.WRITE_REFUSED, f"resctrl group {group}: takes no threads: {text}")
