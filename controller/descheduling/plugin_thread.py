"""One turn of a user's plugin, in a thread of its own, so that a plugin that hangs does not stop the descheduler.

The thread and the round take turns: the plugin computes while the round waits, and the other way round. Only the time
of the plugin counts against its seconds. A plugin that takes longer is told to stop: an exception is raised in its
thread, which ends a loop in Python. A call that does not return, such as a read from a socket, keeps its thread; the
process does not wait for the thread at its end. What holds the interpreter itself, such as a regular expression that
takes for ever, no thread can stop: the liveness probe of the process does.
"""

import contextlib
import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Generator
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TextIO

_TEXT_MAX: Final = 512


class PluginError(Exception):
    """A plugin raised, took too long, or does not answer; the text says which."""


class _Stopped(BaseException):
    """Raised in the thread of a plugin whose time is over; no plugin that catches Exception catches this."""


class _State(Enum):
    """The state of a turn."""

    COMPUTES = auto()
    WAITS = auto()
    ENDED = auto()


_CLOSE: Final = object()
"""Instead of an answer: the plugin is not asked any more."""


class Reply(NamedTuple):
    """A message of the thread of a plugin: an item, its result, or an error."""

    item: Any = None
    result: Any = None
    error: str = ""
    ended: bool = False


class PluginThread(threading.Thread):
    """The thread of one turn: runs a method, whose items it passes on one by one."""

    def __init__(self, name: str, target: object, method: str) -> None:
        """Create a thread for a method without arguments; it does not keep the process from ending."""
        super().__init__(name=f"plugin {name}", daemon=True)
        self._target_object, self._method = target, method
        self._questions: SimpleQueue[Any] = SimpleQueue()
        self._replies: SimpleQueue[Reply] = SimpleQueue()
        self._state = _State.ENDED
        self.seconds = 0.0
        """Seconds that the plugin has computed."""

    def run(self) -> None:
        """Run the method; never raises."""
        with contextlib.suppress(_Stopped):
            self._replies.put(self._outcome())

    def first(self, *, within: float) -> Reply:
        """Start the thread, and return its first reply. Raises PluginError after so many seconds."""
        self.start()
        return self._reply(within=within)

    def next(self, answer: Any, *, within: float) -> Reply:  # noqa: ANN401 - a Verdict
        """Give the plugin an answer, and return its next reply. Raises PluginError after so many seconds."""
        self._questions.put(answer)
        return self._reply(within=within)

    def stop(self) -> None:
        """End the turn: a plugin that waits is closed, and an exception is raised in one that computes."""
        if self._state is _State.WAITS:
            self._questions.put(_CLOSE)
        elif self._state is _State.COMPUTES and self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(_Stopped))
        self._state = _State.ENDED

    def _outcome(self) -> Reply:
        try:
            result = getattr(self._target_object, self._method)()
            return Reply(result=self._pass_on(result) if isinstance(result, Generator) else result, ended=True)
        except BaseException as error:  # noqa: BLE001 - SystemExit and the like would end this thread without a word
            return Reply(error=_text_of(error), ended=True)

    def _pass_on(self, items: Generator[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the plugin returns
        """Pass on what a generator yields, and give it the answers; returns what the generator returns."""
        try:
            item = next(items)
            while True:
                self._replies.put(Reply(item=item))
                if (answer := self._questions.get()) is _CLOSE:
                    items.close()
                    return None
                item = items.send(answer)
        except StopIteration as stop:
            return stop.value

    def _reply(self, *, within: float) -> Reply:
        self._state = _State.COMPUTES
        begin = time.monotonic()
        try:
            reply = self._replies.get(timeout=max(0.0, within - self.seconds))
        except Empty:
            raise PluginError(f"takes longer than {within:g} s (pluginSeconds)") from None
        finally:
            self.seconds += time.monotonic() - begin
        self._state = _State.ENDED if reply.ended else _State.WAITS
        if reply.error:
            raise PluginError(reply.error)
        return reply


class ThreadOutput:
    """Standard output, but for what plugins print: programs may read it, so that goes to standard error."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the stream has it
        return getattr(sys.stderr if isinstance(threading.current_thread(), PluginThread) else self._output, name)


def separate_output() -> None:
    """Let what plugins print go to standard error from now on."""
    if not isinstance(sys.stdout, ThreadOutput):
        sys.stdout = ThreadOutput(sys.stdout)


def _text_of(error: BaseException) -> str:
    """Return an error as a text, with the place that raised it; the error's own text may fail."""
    try:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    except Exception:  # noqa: BLE001 - the error is a plugin's, and so is its text
        text = type(error).__name__
    places = traceback.extract_tb(error.__traceback__)[-1:]
    return text[:_TEXT_MAX] + "".join(f" ({place.filename.rpartition('/')[2]}:{place.lineno})" for place in places)
