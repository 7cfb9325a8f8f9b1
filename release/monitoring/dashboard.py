"""The Grafana dashboard as data: eleven questions, each a panel; ``dashboard.json`` is written from it."""

from typing import Any, Final, NamedTuple

Json = dict[str, Any]

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_DATASOURCE: Final = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
    "refresh": 1,
    "regex": "",
    "hide": 0,
    "includeAll": False,
    "multi": False,
    "options": [],
    "current": {},
}
_WIDTH: Final = 12
_HEIGHT: Final = 9


class Line(NamedTuple):
    """One expression, and what its series are called."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """One question."""

    title: str
    description: str
    lines: tuple[Line, ...]
    unit: str = "short"
    stacked: bool = False


PANELS: Final = (
    Panel(
        "How full",
        "Devices that claims hold, of those that drivers offer.",
        (
            Line(
                "sum by (driver) (dra_reserve_devices_held) / sum by (driver) (dra_reserve_devices_offered > 0)",
                "{{driver}}",
            ),
        ),
        unit="percentunit",
    ),
    Panel(
        "Held by what",
        "pods use them; waiting: their pods are not bound yet; workload: reserved, no pods now; others: entries of "
        "other controllers or lost nodes; nothing: for long, a leak.",
        (Line("sum by (held_by) (dra_reserve_devices_held)", "{{held_by}}"),),
        stacked=True,
    ),
    Panel(
        "Waiting why",
        "Pods that name claims and are not bound or have not started, and the reasons in Events (each state again "
        "every ten minutes); migrations that wait for a limit or a budget. What a reason means: kubectl dra explain "
        "reason NAME.",
        (
            Line('sum by (stage) (dra_reserve_pods{stage!="started"})', "pods {{stage}}"),
            Line(
                "sum by (reason) (increase(dra_reserve_reasons_total{reason=~"
                '"WorkloadNotFound|WaitsForSlot|ConsumerLimit|SandboxNotReady|AllocationStuck|.*Waits.*"}[10m])) > 0',
                "{{reason}}",
            ),
            Line("sum by (reason) (dra_reserve_descheduler_migration_waiting) > 0", "migrations: {{reason}}"),
        ),
    ),
    Panel(
        "How fast",
        "99 of 100 pods have their entry within this time; a claim's decision costs that much; the scheduler waits for "
        "the extender so long; 99 of 100 migrations take that long, from the job to the Ready replacement.",
        (
            Line(
                "histogram_quantile(0.99, sum by (le, room) (rate(dra_reserve_pod_listing_seconds_bucket[5m])))",
                "entry, list {{room}}",
            ),
            Line("histogram_quantile(0.99, sum by (le) (rate(dra_reserve_decision_seconds_bucket[5m])))", "decision"),
            Line(
                "histogram_quantile(0.99, sum by (le, verb) (rate(dra_reserve_extender_call_seconds_bucket[5m])))",
                "extender {{verb}}",
            ),
            Line(
                "histogram_quantile(0.99, sum by (le) (rate(dra_reserve_descheduler_migration_seconds_bucket[30m])))",
                "migration",
            ),
        ),
        unit="s",
    ),
    Panel(
        "Errors",
        "Per second: decisions that failed, requests that the API server refused or did not answer, writes that "
        "conflicted with another client's, claims that kubelet plugins refused.",
        (
            Line("sum(rate(dra_reserve_decision_failures_total[5m]))", "decisions failed"),
            Line(
                'sum by (code) (rate(dra_reserve_api_requests_total{code=~"0|403|429|5.."}[5m]))',
                "API server: {{code}}",
            ),
            Line("sum(rate(dra_reserve_claim_conflicts_total[5m]))", "conflicts"),
            Line("sum by (driver) (rate(dra_reserve_plugin_claims_refused_total[5m]))", "refused by {{driver}}"),
        ),
        unit="ops",
    ),
    Panel(
        "Leaks",
        "Devices that no pod uses and no claim can get: nothing keeps their claim, or others do; claims that nodes "
        "still keep. Which: kubectl dra audit.",
        (
            Line(
                'sum by (held_by) (dra_reserve_devices_held{held_by=~"nothing|others"})', "devices held by {{held_by}}"
            ),
            Line("sum by (driver) (dra_reserve_plugin_orphans)", "orphans on nodes, {{driver}}"),
        ),
    ),
    Panel(
        "Idle: held and not used",
        "Devices that claims of a namespace hold and do not use now, the twenty namespaces with most, and the devices "
        "that all of them hold and use. Over a day or a week: the view Idle of the page, or kubectl dra usage --idle.",
        (
            Line(
                "topk(20, sum by (claim_namespace) (max by (claim_namespace, workload, device_class) "
                "(dra_reserve_workload_devices_held)) - sum by (claim_namespace) (max by (claim_namespace, workload, "
                "device_class) (dra_reserve_workload_devices_used)) > 0)",
                "{{claim_namespace}}",
            ),
            Line(
                "sum(max by (claim_namespace, workload, device_class) (dra_reserve_workload_devices_held))",
                "held by all",
            ),
            Line(
                "sum(max by (claim_namespace, workload, device_class) (dra_reserve_workload_devices_used))",
                "used by all",
            ),
        ),
    ),
    Panel(
        "Colocation: CPUs in use",
        "CPUs that pods of each QoS class and the system use, of all nodes that report, and what nodes offer to batch "
        "pods. Of one node: kubectl dra explain node NAME.",
        (
            Line("sum by (qos) (dra_reserve_node_pods_used_cpus)", "pods {{qos}}"),
            Line("sum(dra_reserve_node_system_used_cpus)", "system"),
            Line("sum(dra_reserve_batch_cpu_cores)", "offered to batch pods"),
        ),
    ),
    Panel(
        "Colocation: nodes",
        "Nodes by the way in which they hold batch pods back (holding, floor: they cannot measure), nodes that offer "
        "no more than what batch pods hold, by reason, and limits that other processes replaced.",
        (
            Line("sum by (level) (dra_reserve_node_suppression) > 0", "suppression: {{level}}"),
            Line("sum by (reason) (dra_reserve_batch_nodes_degraded) > 0", "offers nothing new: {{reason}}"),
            Line(
                "sum by (value) (increase(dra_reserve_node_batch_values_reset_by_others_total[10m])) > 0",
                "replaced: {{value}}",
            ),
        ),
    ),
    Panel(
        "Descheduling: candidates",
        "What became of the pods that plugins named, by plugin, in the last 30 minutes. Before a change of the "
        "configuration: kubectl dra deschedule --dry-run -f FILE.",
        (
            Line(
                "sum by (plugin, outcome) (increase(dra_reserve_descheduler_candidates_total[30m])) > 0",
                "{{plugin}}: {{outcome}}",
            ),
            Line("sum(dra_reserve_descheduler_approvals_waiting)", "wait for approval"),
        ),
    ),
    Panel(
        "Descheduling: rounds",
        "Rounds by outcome in the last 30 minutes, plugins that failed in them, and nodes whose load is not known.",
        (
            Line("sum by (outcome) (increase(dra_reserve_descheduler_rounds_total[30m]))", "rounds {{outcome}}"),
            Line(
                "sum by (plugin) (increase(dra_reserve_descheduler_plugin_faults_total[30m])) > 0", "{{plugin}} fails"
            ),
            Line("max(dra_reserve_descheduler_node_metrics_expired)", "nodes without a report"),
        ),
    ),
)


def dashboard() -> Json:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "dra-reserve",
        "title": "dra-reserve",
        "tags": ["kubernetes", "dra"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "editable": True,
        "graphTooltip": 1,  # one crosshair for all panels
        "annotations": {"list": []},
        "templating": {"list": [_DATASOURCE]},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> Json:
    stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": {"fillOpacity": 30 if panel.stacked else 0, "stacking": stacking},
            },
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": line.expression, "legendFormat": line.legend}
            for index, line in enumerate(panel.lines)
        ],
    }
