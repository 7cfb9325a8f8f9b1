"""The machines below the kubelets: registered, alive or silent, rebooted.

A silent machine does nothing and sends nothing to the API server; its containers keep running. A machine that reboots
is silent for a while, loses all sandboxes, and comes back with another bootID.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from uuid import UUID

from dra.kube.client import Client
from dra.kube.clock import Clock, rfc3339_micro
from dra.kube.errors import AlreadyExists, NotFound
from dra.kube.resources import LEASES, NODES, SLICES, Resource
from dra.kube.workqueue import WorkQueue
from dra.model.meta import Key, PartialObjectMetadata
from dra.model.nodes import LEASE_NAMESPACE, Node
from dra.model.releases import Release
from localplane.nodes.node_objects import (
    LEASE_DURATION_SECONDS,
    EmulatedNode,
    lease_body,
    node_body,
    node_status,
    resource_slices,
)

RENEW_SECONDS: Final = LEASE_DURATION_SECONDS / 4.0

STATUS_SECONDS: Final = 1.0
"""Seconds until a node status is written again that says otherwise (the real kubelet: up to 10).

Without a pause, a kubelet and a node controller that lags behind overwrite each other's conditions for ever.
"""


@dataclass(slots=True)
class Machine:
    """The state of one emulated machine."""

    spec: EmulatedNode
    number: int
    boot_id: str = ""
    boots: int = 0
    """Number of reboots so far."""
    registered: bool = False
    silent: bool = False
    down_until: float | None = None
    leased: bool = False
    pods: int = 0
    """Number of pod addresses given out so far, from which the next address is made."""

    def alive(self, now: float) -> bool:
        """Report whether the machine's kubelet works at this time."""
        return not self.silent and (self.down_until is None or now >= self.down_until)

    def address(self) -> str:
        """Return a new address for a pod; nothing listens on the address."""
        self.pods += 1
        third, fourth = divmod(self.pods % 65_000, 250)
        return f"10.{100 + self.number // 250 % 100}.{third}.{fourth + 2}"


class Machines:
    """All machines, and the Nodes, Leases and ResourceSlices that they write."""

    def __init__(  # noqa: PLR0913 - keyword-only; the arguments of the kubelets
        self,
        client: Client,
        nodes: Sequence[EmulatedNode],
        *,
        clock: Clock,
        random: Random,
        leases: bool,
        release: Release,
        on_registered: Callable[[str], None],
    ) -> None:
        self._client = client
        self._release = release
        self._clock = clock
        self._random = random
        self._leases = leases
        self._on_registered = on_registered
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._machines = {spec.name: Machine(spec, number) for number, spec in enumerate(nodes)}
        for name in self._machines:
            self._queue.add(name)

    def __contains__(self, name: object) -> bool:
        return name in self._machines

    def __getitem__(self, name: str) -> Machine:
        return self._machines[name]

    async def run(self) -> None:
        """Register the machines and renew their leases until cancelled."""
        await self._queue.run(self._sync)

    def reboot(self, name: str, *, seconds: float) -> None:
        """Take a machine down; after some seconds, the machine comes back with another bootID."""
        machine = self._machines[name]
        machine.boots += 1
        machine.boot_id, machine.registered = self._uuid(), False
        machine.down_until = self._clock.now() + seconds
        self._queue.add(name)

    def silence(self, name: str) -> None:
        """Stop all writes of a machine to the API server."""
        self._machines[name].silent = True

    def resume(self, name: str) -> None:
        """Let a silent machine register again and renew its lease."""
        machine = self._machines[name]
        machine.silent, machine.registered = False, False
        self._queue.add(name)

    def renew(self, name: str) -> None:
        """Write a machine's node status again in a moment, because the Node says otherwise."""
        self._machines[name].registered = False
        self._queue.add_at(name, self._clock.now() + STATUS_SECONDS)

    async def _sync(self, name: str) -> float | None:
        """Write what is due for a machine; return when the next write is due."""
        machine, now = self._machines[name], self._clock.now()
        if machine.silent:
            return None
        if not machine.alive(now):
            return machine.down_until
        if not machine.registered:
            await self._register(machine)
            machine.down_until = None
            machine.registered = True
            self._on_registered(name)
        if not self._leases:
            return None
        await self._renew(machine)
        return self._clock.now() + RENEW_SECONDS

    async def _register(self, machine: Machine) -> None:
        """Create the Node or take over an existing one, then write its status, then its ResourceSlices."""
        spec = machine.spec
        try:
            node = await self._client.create(NODES, node_body(spec), model=Node)
        except AlreadyExists:
            node = await self._client.get(NODES, ("", spec.name), Node)
        if not machine.boot_id:  # a restart of the kubelet is no reboot
            machine.boot_id = node.status.node_info.boot_id or self._uuid()
        version = self._release.traits.version
        status = node_status(spec, boot_id=machine.boot_id, wall=self._clock.wall(), version=version)
        body = {"status": status}
        await self._client.merge_patch(NODES, ("", spec.name), body, model=PartialObjectMetadata, subresource="status")
        for resource_slice in resource_slices(spec, node.metadata.uid):
            await self._put(SLICES, ("", resource_slice["metadata"]["name"]), resource_slice)

    async def _renew(self, machine: Machine) -> None:
        """Renew the lease without reading; create the lease if it is missing."""
        wall, name = self._clock.wall(), machine.spec.name
        key = (LEASE_NAMESPACE, name)
        if machine.leased:
            body = {"spec": {"renewTime": rfc3339_micro(wall)}}
            try:
                await self._client.merge_patch(LEASES, key, body, model=PartialObjectMetadata)
            except NotFound:
                machine.leased = False
        if not machine.leased:
            node = await self._client.get(NODES, ("", name), PartialObjectMetadata)
            await self._put(LEASES, key, lease_body(name, node.metadata.uid, wall))
            machine.leased = True

    async def _put(self, resource: Resource, key: Key, body: dict[str, Any]) -> None:
        """Create an object, or patch the spec of an existing one."""
        try:
            await self._client.create(resource, body, model=PartialObjectMetadata, namespace=key[0] or None)
        except AlreadyExists:
            await self._client.merge_patch(resource, key, {"spec": body["spec"]}, model=PartialObjectMetadata)

    def _uuid(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))
