"""The value of the PriorityClass that ``priorityThreshold`` of MigrationControllerArgs names."""

import logging
from typing import Final

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.engine.instants import Instant
from dra.engine.migration.evictability import with_priority_value
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import NotFound
from dra.kube.resources import PRIORITY_CLASSES
from dra.model.preemption import PriorityClass

KEEP_SECONDS: Final = 30.0
"""Seconds for which the value is kept: the value of a PriorityClass changes only if the class is created anew."""

_log: Final = logging.getLogger(__name__)


class PriorityThresholdReader:
    """Reads the value of the named PriorityClass when arbitration needs the value."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._value: int | None = None
        self._read_at: Instant | None = None

    async def resolve(self, args: MigrationControllerArgs) -> MigrationControllerArgs:
        """Return a configuration with the value of the threshold; without one if the class does not exist.

        Raises ApiError if the class cannot be read.
        """
        threshold = args.priority_threshold
        if threshold is None or not threshold.name:
            return args
        now = self._clock.now()
        if self._read_at is None or now >= self._read_at + KEEP_SECONDS:
            self._value = await self._read(threshold.name)
            self._read_at = now
        return with_priority_value(args, self._value)

    async def _read(self, name: str) -> int | None:
        try:
            return (await self._client.get(PRIORITY_CLASSES, ("", name), PriorityClass)).value
        except NotFound:
            _log.warning("priorityclass %s does not exist, so no pod is evicted (priorityThreshold.name)", name)
            return None
