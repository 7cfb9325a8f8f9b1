"""As in tests.dra.kube: virtual time, except in modules that say ``REAL_TIME = True`` because they use sockets."""

import asyncio
import contextlib
import dataclasses
from types import SimpleNamespace

import pytest

from controller.claim_generation import ClaimGeneration
from controller.claim_lookups import ClaimLookups
from controller.claims import Claims
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.node_reads import NodeReads
from controller.placement_reader import PlacementReader
from controller.runtime import Runtime
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.policy import REPLACE
from dra.kube.event_handlers import ignore
from dra.kube.events import EventRecorder
from dra.requests.leadership import Leadership
from dra.requests.workload_reader import WorkloadReader
from tests.controller.recorded_reasons import RecordedReasons, RecordingClaimEvents
from tests.dra.engine.examples import KEY
from tests.dra.kube.scripted import Handling, client_of
from tests.dra.kube.virtual import LoopClock, VirtualLoop


def pytest_asyncio_loop_factories(config, item):  # noqa: ARG001 - the hook's signature
    real = getattr(item.module, "REAL_TIME", False)
    return {"real": asyncio.new_event_loop} if real else {"virtual": VirtualLoop}


@pytest.fixture
def clock():
    return LoopClock()


@pytest.fixture
def world():
    return ClaimCache()


@pytest.fixture
def metrics():
    return ControllerMetrics()


@pytest.fixture
def runtime_of(metrics, clock):
    """Makes the runtime of a process on a server, without leader election by default."""

    def make(server, leadership=None):
        client = client_of(server)
        return Runtime(
            client=client,
            clock=clock,
            leadership=leadership or Leadership(),
            recorder=EventRecorder(client, instance="test", clock=clock),
            metrics=metrics,
        )

    return make


@pytest.fixture
def lookups_of(world, clock):
    """Makes the loop of live reads of a process."""

    def make(runtime):
        informers = ControllerInformers(runtime.client, clock=clock)
        return ClaimLookups(
            runtime,
            informers,
            claims=world,
            workloads=WorkloadReader(runtime.client, cache=world, rules={}, clock=clock),
            placements=PlacementReader(runtime, informers, cache=world),
            nodes=NodeReads(runtime, informers, claims=world),
        )

    return make


@pytest.fixture
def writer_of(cluster, world, clock, runtime_of, lookups_of):
    """Makes the loop of claims before the cluster of the module, which is told what to carry out."""

    def make(leadership=None, recorder=None):
        runtime = runtime_of(cluster, leadership)
        runtime = dataclasses.replace(runtime, recorder=recorder or runtime.recorder)
        informers = ControllerInformers(runtime.client, clock=clock)
        lookups = lookups_of(runtime)
        claims = Claims(runtime, informers, cache=world, lookups=lookups, policy=REPLACE)

        async def apply(plan, *, view=None):
            await claims.carry_out(plan, view, key=KEY if view is None else view.key)

        return SimpleNamespace(apply=apply)

    return make


@pytest.fixture
def generating(world, metrics, clock, runtime_of):
    """Runs a generation loop before a server; yields its transport, with the ``loop`` and its ``reasons``."""

    @contextlib.asynccontextmanager
    async def run(server):
        transport, recorded = Handling(server), RecordedReasons()
        transport.reasons = recorded.reasons
        informers = ControllerInformers(client_of(transport), clock=clock)
        transport.loop = ClaimGeneration(
            runtime_of(transport), informers, cache=world, events=RecordingClaimEvents(recorded, metrics)
        )
        informers.templates.subscribe(ignore)
        informers.templates.reflector.synced.set()
        task = asyncio.create_task(transport.loop.run())
        await asyncio.sleep(0.1)
        try:
            yield transport
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run
