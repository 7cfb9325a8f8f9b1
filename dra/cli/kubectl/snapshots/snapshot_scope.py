"""The kinds of objects that a snapshot has."""

from enum import Flag, auto
from typing import Final


class SnapshotScope(Flag):
    """The kinds of objects to read besides the claims."""

    CLAIMS_ONLY = 0
    PODS = auto()
    NODES = auto()
    DEVICES = auto()  # slices, classes and taint rules
    WORKLOADS = auto()
    TEMPLATES_AND_LEASE = auto()  # templates, the lease of our controller
    RESERVATIONS = auto()
    PREEMPTION = auto()  # priority classes and disruption budgets
    MIGRATIONS = auto()  # PodMigrationJobs, the lease of the descheduler
    NAMESPACES = (
        auto()
    )  # what the translation of Koordinator's requests depends on: their label, the controller's default policy
    CONTROLLERS = auto()  # of pods
    COLOCATION = auto()  # NodeMetrics, the ConfigMap slo-controller-config
    START_FAILURES = auto()  # Events of pods that cannot start, in the selected namespace
    ALL_START_FAILURES = auto()  # the same in all namespaces
    DEPLOYMENTS = auto()  # of dra-reserve, in the namespace of the lease
    RUNTIME_CLASSES = auto()
    ALL = PODS | NODES | DEVICES | WORKLOADS | TEMPLATES_AND_LEASE
    EVERYTHING = ALL | RESERVATIONS | PREEMPTION | MIGRATIONS | NAMESPACES
    SIMULATED = EVERYTHING | RUNTIME_CLASSES
    BUNDLED = SIMULATED | CONTROLLERS | COLOCATION | ALL_START_FAILURES | DEPLOYMENTS


LIST_SCOPE: Final = SnapshotScope.PODS | SnapshotScope.WORKLOADS | SnapshotScope.NODES | SnapshotScope.DEVICES
"""What lists of claims, devices, pods and nodes need."""
