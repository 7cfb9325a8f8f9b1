"""The rules and limits that remain once the gates of ``skipEvictionGates`` are switched off.

Most gates are fields of the configuration, which get the value that refuses nothing. The limits of a workload have no
such value, since without one the default counts; `limits` asks for their gates. As in Koordinator, no gate concerns the
greatest eviction cost, static pods, DaemonSets, ``objectLimiters`` or budgets.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.descheduler_configuration import EvictionGate, MigrationControllerArgs, NamespaceFilter

_OPEN: Final[Mapping[EvictionGate, Mapping[str, Any]]] = {
    EvictionGate.MAX_MIGRATING_GLOBALLY: {"max_migrating_globally": None},
    EvictionGate.MAX_MIGRATING_PER_NAMESPACE: {"max_migrating_per_namespace": None},
    EvictionGate.MAX_MIGRATING_PER_NODE: {"max_migrating_per_node": None},
    EvictionGate.EXPECTED_REPLICAS: {"skip_check_expected_replicas": True},
    EvictionGate.PVC: {"ignore_pvc_pods": False},
    EvictionGate.BARE_PODS: {"evict_failed_bare_pods": True, "evict_all_bare_pods": True},
    EvictionGate.LOCAL_STORAGE: {"evict_local_storage_pods": True},
    EvictionGate.SYSTEM_CRITICAL: {"evict_system_critical_pods": True},
    EvictionGate.PRIORITY_THRESHOLD: {"priority_threshold": None},
    EvictionGate.LABEL_SELECTOR: {"label_selector": None},
    EvictionGate.NAMESPACES: {"namespaces": NamespaceFilter()},
}
"""Gate → the fields that it overrules, each with the value that refuses nothing."""


def effective_args(args: MigrationControllerArgs) -> MigrationControllerArgs:
    """Return a configuration in which the fields of skipped gates refuse nothing."""
    changes = {name: value for gate in args.skip_eviction_gates for name, value in _OPEN.get(gate, {}).items()}
    return args.model_copy(update=changes)
