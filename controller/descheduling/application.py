"""The part of the descheduler that profiles add: rounds, and the evictors and controllers of users' plugins."""

import asyncio
import itertools
import logging
from typing import Final

from controller.descheduling.executor import Executor
from controller.descheduling.informers import DeschedulingInformers
from controller.descheduling.plugin_handle import PluginHandle, run_controllers
from controller.descheduling.rounds import INLINE_PODS, Rounds
from controller.descheduling.user_plugins import UserPlugins
from controller.migration.evictor import Evictor
from controller.migration.metrics import DeschedulerMetrics
from controller.runtime import Runtime
from dra.engine.descheduling.cache import DeschedulingCache
from dra.engine.descheduling.profiles import Descheduling
from dra.engine.descheduling.triggers import CompiledTriggers, hot_thresholds
from dra.engine.migration.job_cache import JobCache

_log: Final = logging.getLogger(__name__)


class Profiles:
    """Rounds with everything that belongs to them."""

    def __init__(
        self,
        runtime: Runtime[DeschedulerMetrics],
        informers: DeschedulingInformers,
        *,
        descheduling: Descheduling,
        plugins: UserPlugins,
        jobs: JobCache,
        evictor: Evictor,
    ) -> None:
        """Create the parts; ``evictor`` is that of migrations, whose pace counts for all evictions."""
        for text in descheduling.warnings:
            _log.warning("%s", text)
        arguments = [args for profile in descheduling.profiles for _, args in (*profile.deschedule, *profile.balance)]
        cache = DeschedulingCache(
            interval=descheduling.interval,
            thresholds=hot_thresholds(arguments),
            triggers=CompiledTriggers(itertools.chain.from_iterable(plugins.triggers.values())),
        )
        self._handle = PluginHandle(runtime, cache=cache, informers=informers)
        self._controllers = plugins.controllers
        executor = Executor(runtime, cache=jobs, evictor=evictor, evictors=plugins.evictors, handle=self._handle)
        self.rounds: Final = Rounds(
            runtime,
            informers,
            cache=cache,
            jobs=jobs,
            descheduling=descheduling,
            executor=executor,
            inline_pods=-1 if plugins.plugins else INLINE_PODS,  # a user's plugin may compute for seconds
        )

    async def run(self) -> None:
        """Run rounds and users' controllers until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.rounds.run(), name="rounds")
            group.create_task(run_controllers(self._controllers, self._handle), name="plugins")
