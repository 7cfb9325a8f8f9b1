"""Which components a plane has, and how each is started: with a client and chance of its own."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.local.nodes.inventory import NodeSpec
from dra.local.nodes.kubelets import Kubelets
from dra.local.plane.options import Options
from dra.local.plane.supervision import Start
from dra.local.scheduler.scheduler import Scheduler
from dra.local.workloads.controllers import WorkloadControllers

SCHEDULER: Final = "scheduler"
KUBELETS: Final = "kubelets"
WORKLOADS: Final = "workloads"


def components(
    options: Options, *, client: Callable[[str], Client], clock: Clock, chance: Random
) -> Mapping[str, Start]:
    """Return how to start each component, by name."""
    dice = {name: branch(chance) for name in (KUBELETS, SCHEDULER, WORKLOADS)}
    nodes = specs(options)

    async def kubelets() -> None:
        await Kubelets(client(KUBELETS), nodes=nodes, clock=clock, chance=dice[KUBELETS], api=options.api.value).run()

    async def scheduler() -> None:
        await Scheduler(client(SCHEDULER), clock=clock, chance=dice[SCHEDULER]).run()

    async def workloads() -> None:
        await WorkloadControllers(client(WORKLOADS), clock=clock, chance=dice[WORKLOADS]).run()

    return {KUBELETS: kubelets, SCHEDULER: scheduler, WORKLOADS: workloads}


def specs(options: Options) -> tuple[NodeSpec, ...]:
    """Return the nodes of a plane."""
    return tuple(NodeSpec(name=f"node-{number}", devices=options.devices) for number in range(1, options.nodes + 1))


def branch(chance: Random) -> Random:
    """Return chance of its own for a part, so that what one part draws does not move the others."""
    return Random(chance.getrandbits(64))  # noqa: S311 - names and timing, no secrets
