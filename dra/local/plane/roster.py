"""Which components a plane has, and how each is started: with a client and chance of its own."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.local.nodes.inventory import NodeSpec
from dra.local.nodes.kubelets import Kubelets
from dra.local.nodes.plugins import folders
from dra.local.nodes.processes import Processes
from dra.local.plane.options import Options
from dra.local.plane.supervision import Start
from dra.local.scheduler.extending import Extender
from dra.local.scheduler.scheduler import Scheduler
from dra.local.workloads.controllers import WorkloadControllers

SCHEDULER: Final = "scheduler"
KUBELETS: Final = "kubelets"
WORKLOADS: Final = "workloads"


@dataclass(slots=True)
class Extension:
    """Whom the scheduler asks, if anybody, and by which more names pods may ask for it."""

    extender: Extender | None = None
    profiles: Collection[str] = ()


def components(
    options: Options, *, client: Callable[[str], Client], clock: Clock, chance: Random, extension: Extension
) -> Mapping[str, Start]:
    """Return how to start each component, by name."""
    dice = {name: branch(chance) for name in (KUBELETS, SCHEDULER, WORKLOADS)}

    async def kubelets() -> None:
        await run_kubelets(options, client(KUBELETS), clock=clock, chance=dice[KUBELETS])

    async def scheduler() -> None:
        await Scheduler(
            client(SCHEDULER),
            clock=clock,
            chance=dice[SCHEDULER],
            release=options.release,
            profiles=extension.profiles,
            extender=extension.extender,
        ).run()

    async def workloads() -> None:
        await WorkloadControllers(client(WORKLOADS), clock=clock, chance=dice[WORKLOADS]).run()

    return {KUBELETS: kubelets, SCHEDULER: scheduler, WORKLOADS: workloads}


async def run_kubelets(options: Options, client: Client, *, clock: Clock, chance: Random) -> None:
    """Run the kubelets of a plane, and what they have plugins for, until cancelled."""
    nodes, api = specs(options), options.api.value
    places = folders.of(options.plugins, (spec.name for spec in nodes)) if options.plugins is not None else {}
    containers = Processes(specs={name: place.cdi for name, place in places.items()}) if options.processes else None
    if not places:
        await Kubelets(
            client, nodes=nodes, clock=clock, chance=chance, api=api, release=options.release, containers=containers
        ).run()
        return
    from dra.local.nodes.plugins.checkpoints import Checkpoints  # noqa: PLC0415 - with it
    from dra.local.nodes.plugins.preparer import Plugins  # noqa: PLC0415 - gRPC, for who asks for it

    published = frozenset(spec.driver for spec in nodes if spec.devices)
    plugins = Plugins(places, client, clock=clock, own=published, release=options.release)
    kubelets = Kubelets(
        client,
        nodes=nodes,
        clock=clock,
        chance=chance,
        api=api,
        release=options.release,
        preparer=plugins,
        health=plugins,
        checkpoint=Checkpoints({name: place.root for name, place in places.items()}),
        containers=containers,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(plugins.run(), name="plugins")
        group.create_task(kubelets.run(), name="kubelets")


def specs(options: Options) -> tuple[NodeSpec, ...]:
    """Return the nodes of a plane."""
    return tuple(NodeSpec(name=f"node-{number}", devices=options.devices) for number in range(1, options.nodes + 1))


def branch(chance: Random) -> Random:
    """Return chance of its own for a part, so that what one part draws does not move the others."""
    return Random(chance.getrandbits(64))  # noqa: S311 - names and timing, no secrets
