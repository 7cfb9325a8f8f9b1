"""Starts the components of a plane, each with its own client and its own source of randomness."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from dra.kube.client import Client
from dra.kube.clock import Clock
from localplane.controller_manager.claims.controller import ClaimController
from localplane.controller_manager.manager import ControllerManager
from localplane.nodes.container_runtime import ProcessRuntime
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.nodes.plugins import node_folders
from localplane.plane.options import PlaneOptions
from localplane.plane.supervisor import ComponentStarter
from localplane.scheduler.scheduler import Scheduler
from localplane.scheduler.scheduler_extender import Extender

SCHEDULER: Final = "scheduler"
KUBELETS: Final = "kubelets"
WORKLOADS: Final = "workloads"
CLAIM_CONTROLLER: Final = "claim-controller"


@dataclass(slots=True)
class SchedulerExtension:
    """The scheduler extender, if any, and the additional scheduler names under which pods are scheduled."""

    extender: Extender | None = None
    profiles: Collection[str] = ()


def component_starters(
    options: PlaneOptions,
    *,
    client: Callable[[str], Client],
    clock: Clock,
    random: Random,
    extension: SchedulerExtension,
) -> Mapping[str, ComponentStarter]:
    """Return a function that runs each component, by name."""
    randoms = {name: fork_random(random) for name in (KUBELETS, SCHEDULER, WORKLOADS)}

    async def kubelets() -> None:
        await run_kubelets(options, client(KUBELETS), clock=clock, random=randoms[KUBELETS])

    async def scheduler() -> None:
        await Scheduler(
            client(SCHEDULER),
            clock=clock,
            random=randoms[SCHEDULER],
            release=options.release,
            profiles=extension.profiles,
            extender=extension.extender,
        ).run()

    async def workloads() -> None:
        await ControllerManager(client(WORKLOADS), clock=clock, random=randoms[WORKLOADS]).run()

    async def claims() -> None:
        await ClaimController(client(CLAIM_CONTROLLER), clock=clock, random=fork_random(randoms[WORKLOADS])).run()

    starters = {KUBELETS: kubelets, SCHEDULER: scheduler, WORKLOADS: workloads}
    return starters | ({CLAIM_CONTROLLER: claims} if options.claim_controller else {})


async def run_kubelets(options: PlaneOptions, client: Client, *, clock: Clock, random: Random) -> None:
    """Run the kubelets of a plane, with the DRA plugins of the options, until cancelled."""
    nodes, api = emulated_nodes(options), options.api
    folders_by_node = (
        node_folders.folders_by_node(options.plugins, (spec.name for spec in nodes))
        if options.plugins is not None
        else {}
    )
    containers = (
        ProcessRuntime(specs={name: folders.cdi for name, folders in folders_by_node.items()})
        if options.processes
        else None
    )
    if not folders_by_node:
        await Kubelets(
            client, nodes=nodes, clock=clock, random=random, api=api, release=options.release, containers=containers
        ).run()
        return
    from localplane.nodes.plugins.checkpoints import FileCheckpointer  # noqa: PLC0415 - with it
    from localplane.nodes.plugins.plugin_preparer import PluginPreparer  # noqa: PLC0415 - gRPC, for who asks for it

    published = frozenset(spec.driver for spec in nodes if spec.devices)
    plugins = PluginPreparer(folders_by_node, client, clock=clock, simulated_drivers=published, release=options.release)
    kubelets = Kubelets(
        client,
        nodes=nodes,
        clock=clock,
        random=random,
        api=api,
        release=options.release,
        preparer=plugins,
        health=plugins,
        checkpoint=FileCheckpointer({name: folders.root for name, folders in folders_by_node.items()}),
        containers=containers,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(plugins.run(), name="plugins")
        group.create_task(kubelets.run(), name="kubelets")


def emulated_nodes(options: PlaneOptions) -> tuple[EmulatedNode, ...]:
    """Return the emulated nodes of a plane."""
    return tuple(EmulatedNode(name=f"node-{number}", devices=options.devices) for number in range(1, options.nodes + 1))


def fork_random(random: Random) -> Random:
    """Return a separate random generator for one component, so that its draws do not affect other components."""
    return Random(random.getrandbits(64))  # noqa: S311 - names and timing, no secrets
