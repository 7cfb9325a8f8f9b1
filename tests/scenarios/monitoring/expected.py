"""What a Prometheus finds in the world of this folder: looks of labels, who has no data and why, numbers of series."""

from __future__ import annotations

import re
from typing import Final

from dra.cli.reference.metrics import LABEL_VALUES
from dra.engine.claims.codes import Code
from dra.engine.colocation.batch_resources import ZeroReason
from dra.engine.colocation.reasons import ColocationReason
from dra.engine.messages.impairments import Impairment
from dra.engine.migration.reasons import MigrationReason
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.engine.resctrl.reasons import ResctrlCode
from release.monitoring.alerts import ALERTS
from release.monitoring.dashboard import PANELS
from tests.cluster import keeper
from tests.scenarios.monitoring import work

PROCESSES: Final = {
    "controller": "controller",
    "extender": "scheduler-extender",
    "descheduler": "descheduler",
    "profiles": "colocation-profiles",
    "page": "page",
    "kubelet-plugin": "kubelet-plugin",
}
"""The component of a pod, by its label, and the command that runs there."""

OF_PROMETHEUS: Final = {"__name__", "job", "instance", "namespace", "pod", "container", "node", "le"}
"""Labels that scraping adds, and that histograms have."""

REASONS: Final = frozenset(
    str(reason.value)
    for declared in (
        Code,
        Impairment,
        ResctrlCode,
        MigrationReason,
        PrepareRefusalReason,
        ColocationReason,
        ZeroReason,
    )
    for reason in declared
)
"""Values of the label ``reason``."""

OPEN: Final = {
    "claim_namespace": r"[a-z0-9-]+|<other>",
    "code": r"0|[1-5]\d\d",
    "device_class": r"[a-z0-9.-]+|<none>|<other>",
    "driver": re.escape(work.DRIVER),
    "gpu": "GPU-[0-9a-f-]{36}",
    "method": "DELETE|GET|PATCH|POST|PUT|WATCH",
    "plugin": r"[A-Z]\w+",
    "reason": "|".join(sorted(map(re.escape, REASONS))),
    "resource": r"-|[a-z]+(\.[a-z0-9.]+)?(/[a-z]+)?",
    "source": "rule|slice|resource_claim_template|extended_resource|",
    "workload": r"[a-z.]+/[a-z0-9.-]+|<none>|<other>",
    "write": "[A-Z][A-Za-z]+",
}
"""Labels whose values the reference page describes: what they look like. It lists those of all others."""

SERIES_AT_MOST: Final = {
    "controller": 260,
    "extender": 160,
    "descheduler": 180,
    "profiles": 60,
    "page": 80,
    "kubelet-plugin": 160,
}
"""Of one process, as docs/how-to/metrics.md says. The largest parts are told beforehand: reasons, buckets, requests."""

WITHOUT_SERIES: Final = {
    "dra_reserve_gpu_pods_utilization_ratio": "simulated GPUs run no processes",
    "dra_reserve_gpu_pods_used_memory_bytes": "simulated GPUs run no processes",
} | (
    {}
    if any((hierarchy / "cpu.pressure").exists() for hierarchy in keeper.hierarchies())
    else {"dra_reserve_node_pods_cpu_pressure_ratio": "the kernel does not measure pressure"}
)
"""Families that have no series here, and why; all others must have some, of each process."""

QUIET: Final = {
    "DraReserveNobodyLeads": "one controller leads",
    "DraReserveDoubleUse": "no device has two claims",
    "DraReserveTwoControllers": "a plane has no stock controller",
    "DraReserveDecisionsFail": "no decision fails",
    "DraReserveApiErrors": "the plane answers, and refuses nobody",
    "DraReserveSlowListing": "no pod waits for ten seconds while there is room",
    "DraReserveLeak": "nothing leaks",
    "DraReserveClaimsIdle": "idleClaimHours is not set",
    "DraReserveClaimsRefused": "the nodes refuse no claim",
    "DraReservePluginNotRegistered": "the nodes have taken both plugins",
    "DraReservePluginNotEnforced": "the nodes enforce what is claimed",
    "DraReservePluginImpaired": "both drivers give devices away",
    "DraReserveOrphans": "no claim is forgotten on a node",
    "DraReserveExtenderInDoubt": "all binds are answered",
    "DraReserveExtenderNobodyBinds": "the extender binds",
    "DraReserveCertificateExpires": "no certificate of the plane expires soon",
    "DraReserveExtenderCertificateEnds": "no certificate of the plane expires soon",
    "DraReserveNobodyMigrates": "one descheduler leads",
    "DraReserveMigrationsFail": "no migration fails",
    "DraReserveMigrationsWait": "the budget that migrations waited for is gone",
    "DraReserveRoundsFail": "no round fails",
    "DraReserveDeschedulerPluginFails": "no plugin fails",
    "DraReserveLoadUnknown": "no profile reads NodeMetrics",
    "DraReserveApprovalsWait": "no migration needs an approval",
    "DraReserveNodeMetricsStale": "both nodes report",
    "DraReserveColocationConfigInvalid": "the ConfigMap has no error",
    "DraReserveSuppressionBlind": "both nodes measure what they use",
    "DraReserveBatchPodsStarve": "much more than a tenth of a CPU is left for batch pods",
    "DraReserveBatchLimitsReset": "nobody else writes the limits of batch pods",
    "DraReserveNobodyAppliesProfiles": "one process applies profiles",
    "Waiting why: migrations: {{reason}}": "the budget that migrations waited for is gone",
    "Colocation: nodes: offers nothing new: {{reason}}": "both nodes report",
    "Colocation: nodes: replaced: {{value}}": "nobody else writes the limits of batch pods",
    "Descheduling: rounds: {{plugin}} fails": "no plugin fails",
    "Errors: API server: {{code}}": "the plane answers, and refuses nobody",
}
"""Expressions that have no data here, and why; all others must have some."""

EXPRESSIONS: Final = {alert.name: alert.expression for alert in ALERTS} | {
    f"{panel.title}: {line.legend}": line.expression for panel in PANELS for line in panel.lines
}


def closed(label: str) -> str:
    """Return the pattern of a label's values."""
    return OPEN.get(label) or "|".join(re.findall("`([^`]+)`", LABEL_VALUES[label]))
