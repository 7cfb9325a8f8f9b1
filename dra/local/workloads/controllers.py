"""All workload controllers in one component."""

import asyncio
from random import Random
from typing import Any

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.events import Recorder
from dra.kube.resources import JOBS, LEASES, NODES, PODS
from dra.local.workloads.deployments.controller import DeploymentController
from dra.local.workloads.deployments.manifests import Deployment
from dra.local.workloads.garbage.collector import GarbageCollector
from dra.local.workloads.jobs.controller import JobController
from dra.local.workloads.jobs.manifests import Job
from dra.local.workloads.manifests import (
    DEPLOYMENTS,
    NAMESPACES,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
    Pod,
    ReplicaSet,
)
from dra.local.workloads.mirror import Mirror
from dra.local.workloads.namespaces import NamespaceController
from dra.local.workloads.outages.controller import OutageController
from dra.local.workloads.outages.manifests import Lease, Node
from dra.local.workloads.replicasets import ReplicaSetController
from dra.model.meta import PartialObject


class WorkloadControllers:
    """Watches once for all of them. `run` never returns; cancel it."""

    def __init__(self, client: Client, *, clock: Clock, chance: Random) -> None:
        pods = Mirror(client, PODS, Pod, clock=clock, chance=chance)
        jobs = Mirror(client, JOBS, Job, clock=clock, chance=chance)
        sets = Mirror(client, REPLICA_SETS, ReplicaSet, clock=clock, chance=chance)
        deployments = Mirror(client, DEPLOYMENTS, Deployment, clock=clock, chance=chance)
        nodes = Mirror(client, NODES, Node, clock=clock, chance=chance)
        leases = Mirror(client, LEASES, Lease, clock=clock, chance=chance)
        namespaces = Mirror(client, NAMESPACES, PartialObject, clock=clock, chance=chance)
        accounts = Mirror(client, SERVICE_ACCOUNTS, PartialObject, clock=clock, chance=chance)
        self._mirrors: tuple[Mirror[Any], ...] = (
            namespaces,
            accounts,
            nodes,
            leases,
            pods,
            jobs,
            sets,
            deployments,
        )
        self._recorder = Recorder(client, instance="local", controller="job-controller", clock=clock)
        self._garbage = GarbageCollector(client, mirrors=self._mirrors, clock=clock, chance=chance)
        self._jobs = JobController(client, jobs=jobs, pods=pods, recorder=self._recorder, clock=clock)
        self._sets = ReplicaSetController(client, sets=sets, pods=pods, clock=clock)
        self._deployments = DeploymentController(client, deployments=deployments, sets=sets, pods=pods, clock=clock)
        self._outages = OutageController(client, nodes=nodes, leases=leases, pods=pods, clock=clock)
        self._namespaces = NamespaceController(
            client, namespaces=namespaces, accounts=accounts, kinds=lambda: self._garbage.kinds, clock=clock
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in self._mirrors:
                group.create_task(mirror.reflector.run(), name=f"reflect {mirror.resource.label} for workloads")
            group.create_task(self._recorder.run(), name="events of workloads")
            group.create_task(self._garbage.run(), name="garbage")
            for mirror in self._mirrors:
                await mirror.reflector.synced.wait()
            group.create_task(self._jobs.run(), name="jobs")
            group.create_task(self._sets.run(), name="replicasets")
            group.create_task(self._deployments.run(), name="deployments")
            group.create_task(self._outages.run(), name="outages")
            group.create_task(self._namespaces.run(), name="namespaces")
