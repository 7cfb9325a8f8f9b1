"""Pods that wait because we said no, and what makes kube-scheduler ask again.

It asks again when something happens to nodes or pods, but it knows nothing of reservations: one that ends frees room
and makes no event there; the pods would wait for the five minutes after which it tries everything once more. So when a
reservation lets go of something, an annotation of those pods is changed, a few at a time, by priority.
"""

import asyncio
import itertools
import logging
from collections import OrderedDict
from typing import Final, NoReturn

from controller.extender.picture import Picture
from controller.extender.writing import Writing
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.model.meta import Key, Uid
from dra.model.placement import PlacedPod

REMEMBERED: Final = 10_000
AT_ONCE: Final = 50
"""Pods touched in one round; the others in the next ones."""

PAUSE: Final = 1.0
"""Seconds between two rounds, at least."""

_log: Final = logging.getLogger(__name__)


class Refused:
    """Remembers them; `run` touches them when it is worth it."""

    def __init__(self, *, picture: Picture, writing: Writing, clock: Clock) -> None:
        self._picture = picture
        self._writing = writing
        self._clock = clock
        self._pods: OrderedDict[Uid, tuple[int, Key]] = OrderedDict()
        self._freed = asyncio.Event()
        self._due: list[tuple[int, Uid, Key]] = []
        self._marks = itertools.count()

    def __len__(self) -> int:
        return len(self._pods)

    def note(self, pod: PlacedPod) -> None:
        """A pod was refused at least one node."""
        self._pods[pod.metadata.uid] = (pod.spec.priority, pod.metadata.key)
        while len(self._pods) > REMEMBERED:
            self._pods.popitem(last=False)

    def freed(self) -> None:
        """A reservation has let go of something, or has become usable."""
        self._due = sorted(
            (-priority, uid, key)
            for uid, (priority, key) in self._pods.items()
            if self._picture.waiting(uid) is not None
        )
        self._pods.clear()
        self._freed.set()

    async def run(self) -> NoReturn:
        """Touch pods, until cancelled."""
        while True:
            await self._freed.wait()
            self._freed.clear()
            await asyncio.sleep(PAUSE)
            round_, self._due = self._due[:AT_ONCE], self._due[AT_ONCE:]
            if self._due:
                self._freed.set()
            mark = f"{int(self._clock.wall().timestamp())}-{next(self._marks)}"
            for _, uid, key in round_:
                if self._picture.waiting(uid) is None:
                    continue
                try:
                    await self._writing.touch(key, uid, mark)
                except ApiError as error:  # the scheduler looks at it sometime
                    _log.info("pod %s/%s: not touched: %s", *key, error)
