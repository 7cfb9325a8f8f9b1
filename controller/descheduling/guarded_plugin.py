"""A guard around a user's plugin: time, copies, and plain values.

The round sees a plugin of its own kind that raises `PluginError` where the user's one misbehaves.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from controller.descheduling.plugin_thread import PluginError, PluginThread
from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.plugin import Evict, Verdict
from dra.engine.descheduling.plugin_view import PluginView, copy_of
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot

_TEXT_MAX: Final = 512


class FilterSeconds:
    """The seconds that the filters of users have computed in a round, by name."""

    def __init__(self, snapshot: Snapshot) -> None:
        del snapshot
        self.spent: dict[str, float] = {}


class GuardedPlugin:
    """A plugin of a user, with the extension points that it has."""

    def __init__(self, plugin: Any, *, seconds: float) -> None:  # noqa: ANN401 - whatever the user wrote
        """Guard a plugin, which may compute for so many seconds at each extension point in a round."""
        self.name: str = plugin.name
        self.Args: type[PluginArgs] = plugin.Args
        self._plugin = plugin
        self.seconds = seconds
        """Seconds that the plugin may compute for at each extension point in a round."""
        self._thread: PluginThread | None = None
        """The thread of the last turn."""
        for point in ("deschedule", "balance"):
            if hasattr(plugin, point):
                setattr(self, point, partial(self._candidates, point))
        if hasattr(plugin, "filter"):
            self.filter = self._filter

    def _candidates(self, point: str, snapshot: Snapshot, args: PluginArgs) -> Generator[Evict, Verdict, str | None]:
        """Yield the candidates of the plugin for the pods of the snapshot. Raises PluginError."""
        self._refuse_while_busy()
        view = PluginView(snapshot)
        turn = _Turn(self._plugin, point, view, args)
        thread = self._thread = PluginThread(self.name, turn, "candidates")
        try:
            reply = thread.first(within=self.seconds)
            while not reply.ended:
                uid, candidate = reply.item
                pod = snapshot.pod(uid)
                if pod is None:
                    raise PluginError(
                        f"yields pod {'/'.join(candidate.pod.metadata.key)}, which is not in the snapshot"
                    )
                verdict = yield Evict(
                    pod,
                    candidate.reason,
                    candidate.receivers,
                    needs_place=candidate.needs_place,
                    insists_on_place=candidate.insists_on_place,
                )
                reply = thread.next(verdict, within=self.seconds)
            return reply.result if isinstance(reply.result, str) else None
        finally:
            view.end_turn()
            thread.stop()

    def _filter(self, pod: DeschedulingPod, snapshot: Snapshot, args: PluginArgs) -> str:
        """Return why the plugin protects a pod; empty if it does not. Raises PluginError."""
        self._refuse_while_busy()
        seconds, view = snapshot.part(FilterSeconds).spent, PluginView(snapshot)
        turn = _Turn(self._plugin, "filter", view, args, pod)
        thread = self._thread = PluginThread(self.name, turn, "protection")
        try:
            thread.seconds = seconds.get(self.name, 0.0)
            answer = thread.first(within=self.seconds).result
        finally:
            seconds[self.name] = thread.seconds
            view.end_turn()
            thread.stop()
        if answer is not None and not isinstance(answer, str):
            raise PluginError(f"filter returned a {type(answer).__name__}, not a text or None")
        return answer or ""

    def _refuse_while_busy(self) -> None:
        if self._thread is not None:
            self._thread.join(timeout=0.1)
            if self._thread.is_alive():
                raise PluginError("still computes for an earlier turn, and is not asked again before that ends")


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn of a plugin, which its thread runs."""

    plugin: Any
    point: str
    view: PluginView
    args: PluginArgs
    pod: DeschedulingPod | None = None

    def candidates(self) -> Generator[tuple[str, Evict], Verdict, Any]:
        """Yield uid and candidate of plain values for each candidate; returns what the plugin returns."""
        given = getattr(self.plugin, self.point)(self.view, self.args)
        if not isinstance(given, Iterable):
            raise TypeError(f"returned a {type(given).__name__}, not candidates")
        items = given if isinstance(given, Generator) else _without_replies(given)
        try:
            item = next(items)
            while True:
                item = items.send((yield _plain(item)))
        except StopIteration as stop:
            return stop.value

    def protection(self) -> object:
        """Return the answer of a filter."""
        return self.plugin.filter(None if self.pod is None else copy_of(self.pod), self.view, self.args)


def _without_replies(items: Iterable[Any]) -> Generator[Any, Verdict, None]:
    for item in items:  # noqa: UP028 - "yield from" would send the verdicts to an iterator that takes none
        yield item


def _plain(item: object) -> tuple[str, Evict]:
    if not isinstance(item, Evict) or not isinstance(item.pod, DeschedulingPod):
        raise TypeError(f"yields a {type(item).__name__}, not an Evict with a pod of the snapshot")
    receivers = None if item.receivers is None else frozenset(str(name) for name in item.receivers)
    candidate = Evict(
        item.pod,
        str(item.reason)[:_TEXT_MAX],
        receivers,
        needs_place=bool(item.needs_place),
        insists_on_place=bool(item.insists_on_place),
    )
    return str(item.pod.metadata.uid), candidate
