"""Carries out what `dra.engine.resctrl` decides about control groups, until nothing is left to do."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Final, NoReturn

from prometheus_client import CollectorRegistry

from dra.engine.resctrl.actions import MakeGroup, MoveTasks, RecordGroups, ResctrlAction, WriteLine, refusal
from dra.engine.resctrl.decide import ResctrlPlan, ResctrlView, decide
from dra.engine.resctrl.reasons import ResctrlReason
from dra.engine.resctrl.tree import ResctrlTree
from kubeletplugin.colocation.resctrl.group_record import GroupRecord
from kubeletplugin.colocation.resctrl.metrics import ResctrlMetrics
from kubeletplugin.colocation.resctrl.resctrl_files import ResctrlFiles
from kubeletplugin.ticks import until_tick

PASSES_MAX: Final = 8
"""Decisions of one round at most: a pod may create threads faster than they are moved."""

LOOK_INTERVAL: Final = 10.0
"""Seconds between two looks for a record without colocation."""

_log: Final = logging.getLogger(__name__)


class GroupWriter:
    """Writes control groups and their record.

    A round runs in a thread, which a stop of the plugin does not end: so the restoration waits for the round, and is
    the last that writes.
    """

    def __init__(self, files: ResctrlFiles, record: GroupRecord, *, metrics: ResctrlMetrics) -> None:
        self.files = files
        self.record = record
        self._metrics = metrics
        self._lock = Lock()
        self._restored = False
        self._logged_texts: tuple[str, ...] = ()

    def settle(self, read_view: Callable[[], ResctrlView]) -> tuple[ResctrlReason, ...]:
        """Decide and carry out, until nothing is left or nothing changes; return the reasons for what is not divided.

        Raises OSError where files cannot be read.
        """
        with self._lock:
            if self._restored:
                return ()
            self.record.touch()
            return self._settle(read_view)

    def restore(self) -> None:
        """Give all recorded groups the full masks; no round writes afterwards. What fails is logged, once."""
        with self._lock:
            self._restored = True
            try:
                texts = tuple(self._restore())
            except OSError as error:
                texts = (f"resctrl: control groups keep their limits: {error}",)
        for text in texts:
            if text not in self._logged_texts:
                _log.warning("%s", text)
        self._logged_texts = texts

    def _restore(self) -> Iterator[str]:
        """Restore what is recorded, and yield why something keeps its limits; raises OSError."""
        view = self._restoring_view()
        if view.recorded and not view.tree.mounted:
            # In a container without the host's mount, this says nothing about the host: so the record stays.
            names = ", ".join(sorted(view.recorded))
            yield f"resctrl: control groups {names} may keep their limits: the host's resctrl is not mounted here"
            return
        for reason in self._settle(self._restoring_view):
            yield reason.text

    def _settle(self, read_view: Callable[[], ResctrlView]) -> tuple[ResctrlReason, ...]:
        plan, refused = ResctrlPlan(), []
        for _ in range(PASSES_MAX):
            previous, plan = plan, decide(read_view())
            if not plan.actions or plan == previous:
                break
            refused = list(self._carry_out(plan.actions))
        return (*plan.reasons, *(refused if plan.actions else ()))

    def _restoring_view(self) -> ResctrlView:
        recorded = self.record.read()
        return ResctrlView(tree=self.files.read_tree() if recorded else ResctrlTree(), shares={}, recorded=recorded)

    def _carry_out(self, actions: Iterable[ResctrlAction]) -> Iterable[ResctrlReason]:
        """Yield the reasons for actions that fail; without a record of the groups, none of them is changed."""
        for action in actions:
            try:
                self._apply(action)
            except OSError as error:
                number = error.errno or 0
                text = ": ".join(filter(None, (os.strerror(number), self.files.last_status())))
                if reason := refusal(action, error=number, text=text):
                    yield reason
                if isinstance(action, RecordGroups):
                    return

    def _apply(self, action: ResctrlAction) -> None:
        match action:
            case RecordGroups(groups):
                self.record.write(groups)
            case MakeGroup(group):
                self.files.make_group(group)
            case WriteLine(group, line):
                self.files.write_line(group, line)
                self._metrics.lines.labels(group.value).inc()
                _log.info("resctrl group %s: %s", group, line.strip())
            case MoveTasks(group, tasks):
                self._metrics.threads.labels(group.value).inc(self.files.move_tasks(group, tasks))


async def restore_recorded_groups(marks: Path) -> NoReturn:
    """Restore recorded groups whenever there is an abandoned record, until cancelled: for a plugin without colocation.

    An instance with ``--colocation`` may still run beside it in a rolling update, or in another DaemonSet with other
    drivers.
    """
    writer = create_restorer(marks)
    while True:
        await asyncio.to_thread(restore_abandoned_groups, writer)
        await asyncio.sleep(until_tick(LOOK_INTERVAL))


def restore_abandoned_groups(writer: GroupWriter) -> None:
    """Restore the recorded groups once no plugin divides the caches; an unreadable record is read again later."""
    with contextlib.suppress(OSError):
        if writer.record.is_abandoned():
            writer.restore()


def create_restorer(marks: Path, *, files: ResctrlFiles | None = None) -> GroupWriter:
    """Return a writer that restores the groups that a plugin with colocation left behind."""
    return GroupWriter(files or ResctrlFiles(), GroupRecord(marks), metrics=ResctrlMetrics(CollectorRegistry()))
