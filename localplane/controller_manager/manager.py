"""The controller manager: all workload controllers in one component."""

import asyncio
from random import Random
from typing import Any

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.events import EventRecorder
from dra.kube.lease_rules import Lease
from dra.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
)
from dra.model.meta import PartialObjectMetadata
from localplane.controller_manager.api_types import Pod, ReplicaSet
from localplane.controller_manager.deployments.controller import DeploymentController
from localplane.controller_manager.deployments.deployment_types import Deployment
from localplane.controller_manager.disruption.budget_types import PodDisruptionBudget
from localplane.controller_manager.disruption.controller import DisruptionController
from localplane.controller_manager.garbage_collector.collector import GarbageCollector
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.jobs.controller import JobController
from localplane.controller_manager.jobs.job_types import Job
from localplane.controller_manager.namespace_controller import NamespaceController
from localplane.controller_manager.node_lifecycle.controller import NodeLifecycleController
from localplane.controller_manager.node_lifecycle.node_types import Node
from localplane.controller_manager.replicaset_controller import ReplicaSetController


class ControllerManager:
    """Runs all controllers on shared informers; `run` never returns, so cancel it."""

    def __init__(self, client: Client, *, clock: Clock, random: Random) -> None:
        pods = Informer(client, PODS, Pod, clock=clock, random=random)
        jobs = Informer(client, JOBS, Job, clock=clock, random=random)
        sets = Informer(client, REPLICA_SETS, ReplicaSet, clock=clock, random=random)
        deployments = Informer(client, DEPLOYMENTS, Deployment, clock=clock, random=random)
        nodes = Informer(client, NODES, Node, clock=clock, random=random)
        leases = Informer(client, LEASES, Lease, clock=clock, random=random)
        namespaces = Informer(client, NAMESPACES, PartialObjectMetadata, clock=clock, random=random)
        accounts = Informer(client, SERVICE_ACCOUNTS, PartialObjectMetadata, clock=clock, random=random)
        budgets = Informer(client, POD_DISRUPTION_BUDGETS, PodDisruptionBudget, clock=clock, random=random)
        self._informers: tuple[Informer[Any], ...] = (
            namespaces,
            accounts,
            nodes,
            leases,
            pods,
            jobs,
            sets,
            deployments,
            budgets,
        )
        self._recorder = EventRecorder(client, instance="local", controller="job-controller", clock=clock)
        self._garbage_collector = GarbageCollector(client, informers=self._informers, clock=clock, random=random)
        self._jobs = JobController(client, jobs=jobs, pods=pods, recorder=self._recorder, clock=clock)
        self._replica_sets = ReplicaSetController(client, sets=sets, pods=pods, clock=clock)
        self._deployments = DeploymentController(client, deployments=deployments, sets=sets, pods=pods, clock=clock)
        self._disruptions = DisruptionController(
            client, budgets=budgets, pods=pods, sets=sets, deployments=deployments, clock=clock
        )
        self._node_lifecycle = NodeLifecycleController(client, nodes=nodes, leases=leases, pods=pods, clock=clock)
        self._namespaces = NamespaceController(
            client, namespaces=namespaces, accounts=accounts, kinds=lambda: self._garbage_collector.kinds, clock=clock
        )

    async def run(self) -> None:
        """Run all controllers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.reflector.run(), name=f"reflect {informer.resource.label} for workloads")
            group.create_task(self._recorder.run(), name="events of workloads")
            group.create_task(self._garbage_collector.run(), name="garbage")
            for informer in self._informers:
                await informer.reflector.synced.wait()
            group.create_task(self._jobs.run(), name="jobs")
            group.create_task(self._replica_sets.run(), name="replicasets")
            group.create_task(self._deployments.run(), name="deployments")
            group.create_task(self._disruptions.run(), name="disruptions")
            group.create_task(self._node_lifecycle.run(), name="outages")
            group.create_task(self._namespaces.run(), name="namespaces")
