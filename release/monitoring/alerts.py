"""The alerts as data: what is so, for how long, how bad it is, and samples on which they must fire and must not.

Each is about something that a person can do something about, and has a page in docs/runbooks that says what.
"""

from enum import StrEnum
from typing import Any, Final, NamedTuple

from dra.engine.messages.documentation import page_url

Json = dict[str, Any]


class Severity(StrEnum):
    """How soon a person has to act."""

    CRITICAL = "critical"  # now: devices may be used twice, or no controller acts
    WARNING = "warning"  # in the morning


class Samples(NamedTuple):
    """Series in promtool's notation, one value a minute: with the first the alert fires at the minute, else not."""

    fires: tuple[tuple[str, str], ...]
    quiet: tuple[tuple[str, str], ...]
    minute: int = 30
    labels: Json | None = None
    """Of the alert that fires, beside severity."""
    fires_as_well: tuple[tuple[str, str], ...] = ()
    """Other samples with which it does."""


class Alert(NamedTuple):
    """One rule."""

    name: str
    expression: str
    lasts: str
    severity: Severity
    summary: str
    samples: Samples

    @property
    def runbook_url(self) -> str:
        """The address of the page that says what to do; Alertmanager's templates know the annotation by this name."""
        return page_url(f"runbooks/{self.name}.md")


ALERTS: Final = (
    Alert(
        "DraReserveNobodyLeads",
        "sum(dra_reserve_leading) != 1 or absent(dra_reserve_leading)",
        "2m",
        Severity.CRITICAL,
        "No controller is the leader, so that pods behind the gate wait; or more than one is.",
        Samples(
            (('dra_reserve_leading{pod="a"}', "0x60"), ('dra_reserve_leading{pod="b"}', "0x60")),
            (('dra_reserve_leading{pod="a"}', "1x60"), ('dra_reserve_leading{pod="b"}', "0x60")),
        ),
    ),
    Alert(
        "DraReserveDoubleUse",
        'sum by (reason) (increase(dra_reserve_reasons_total{reason=~"DeviceHeldTwice|AllocationLost"}[15m])) > 0',
        "0m",
        Severity.CRITICAL,
        "Two claims share one device, or a pod runs on devices that its claim has lost.",
        Samples(
            (('dra_reserve_reasons_total{reason="DeviceHeldTwice"}', "0x20 1x40"),),
            (('dra_reserve_reasons_total{reason="DeviceHeldTwice"}', "1x60"),),
            labels={"reason": "DeviceHeldTwice"},
        ),
    ),
    Alert(
        "DraReserveTwoControllers",
        'increase(dra_reserve_reasons_total{reason="StockControllerActive"}[15m]) > 0',
        "0m",
        Severity.WARNING,
        "Mode is replace, but the resourceclaim-controller of kube-controller-manager runs, too.",
        Samples(
            (('dra_reserve_reasons_total{reason="StockControllerActive"}', "0x20 1x40"),),
            (('dra_reserve_reasons_total{reason="Deallocated"}', "0x20 1x40"),),
            labels={"reason": "StockControllerActive"},
        ),
    ),
    Alert(
        "DraReserveDecisionsFail",
        "sum(increase(dra_reserve_decision_failures_total[15m])) > 0",
        "0m",
        Severity.WARNING,
        "The controller, the extender or the descheduler fails with an internal error in a decision.",
        Samples(
            (("dra_reserve_decision_failures_total", "0x20 1x40"),), (("dra_reserve_decision_failures_total", "3x60"),)
        ),
    ),
    Alert(
        "DraReserveApiErrors",
        'sum by (code) (rate(dra_reserve_api_requests_total{code=~"0|403|5.."}[10m])) > 0.05',
        "10m",
        Severity.WARNING,
        "The API server rejects requests of the controller or does not answer.",
        Samples(
            (('dra_reserve_api_requests_total{method="PATCH",resource="resourceclaims",code="403"}', "0+6x60"),),
            (('dra_reserve_api_requests_total{method="PATCH",resource="resourceclaims",code="200"}', "0+600x60"),),
            labels={"code": "403"},
        ),
    ),
    Alert(
        "DraReserveSlowListing",
        'histogram_quantile(0.99, sum by (le) (rate(dra_reserve_pod_listing_seconds_bucket{room="free"}[10m]))) > 10',
        "10m",
        Severity.WARNING,
        "Pods wait for more than ten seconds for their entry, although the list has room.",
        Samples(
            (
                ('dra_reserve_pod_listing_seconds_bucket{room="free",le="10.0"}', "0+1x60"),
                ('dra_reserve_pod_listing_seconds_bucket{room="free",le="30.0"}', "0+10x60"),
                ('dra_reserve_pod_listing_seconds_bucket{room="free",le="+Inf"}', "0+10x60"),
            ),
            (
                ('dra_reserve_pod_listing_seconds_bucket{room="free",le="1.0"}', "0+10x60"),
                ('dra_reserve_pod_listing_seconds_bucket{room="free",le="+Inf"}', "0+10x60"),
            ),
        ),
    ),
    Alert(
        "DraReserveLeak",
        'sum by (driver) (dra_reserve_devices_held{held_by=~"nothing|others"}) > 0',
        "30m",
        Severity.WARNING,
        "Devices stay allocated although no pod uses them.",
        Samples(
            (('dra_reserve_devices_held{driver="gpu.example.com",held_by="nothing"}', "8x90"),),
            (
                ('dra_reserve_devices_held{driver="gpu.example.com",held_by="nothing"}', "0 8 0 8 0 8 0x90"),
                ('dra_reserve_devices_held{driver="gpu.example.com",held_by="workload"}', "8x90"),
            ),
            minute=60,
            labels={"driver": "gpu.example.com"},
        ),
    ),
    Alert(
        "DraReserveClaimsIdle",  # has data only where idleClaimHours asks for it
        "sum(dra_reserve_claims_idle) > 0",
        "10m",
        Severity.WARNING,
        "Claims have held devices for idleClaimHours without use.",
        Samples((("dra_reserve_claims_idle", "2x60"),), (("dra_reserve_claims_idle", "0x60"),)),
    ),
    Alert(
        "DraReserveClaimsRefused",
        "sum by (reason) (dra_reserve_claims_refused) > 0",
        "15m",
        Severity.WARNING,
        "A node refuses a claim for long: its pod does not start, and CPUs of the node are kept from other pods.",
        Samples(
            (('dra_reserve_claims_refused{reason="CPUsInUse"}', "1x60"),),
            (
                ('dra_reserve_claims_refused{reason="CPUsInUse"}', "1x10 0x50"),
                ('dra_reserve_claims_refused{reason="CPUsUnsuitable"}', "0x60"),
            ),
            labels={"reason": "CPUsInUse"},
        ),
    ),
    Alert(
        "DraReservePluginNotRegistered",
        "sum by (driver) (dra_reserve_plugin_registered == bool 0) > 0",
        "5m",
        Severity.WARNING,
        "The kubelet has not registered the driver on some nodes, so pods with its claims do not start there.",
        Samples(
            (('dra_reserve_plugin_registered{driver="cpu.reserve.dra",instance="n1"}', "0x60"),),
            (('dra_reserve_plugin_registered{driver="cpu.reserve.dra",instance="n1"}', "1x60"),),
            labels={"driver": "cpu.reserve.dra"},
        ),
    ),
    Alert(
        "DraReservePluginNotEnforced",
        'sum by (driver) (dra_reserve_plugin_impaired{reason="NotEnforced"}) > 0',
        "2m",
        Severity.CRITICAL,
        "Containers may run on CPUs that other pods have claimed.",
        Samples(
            (('dra_reserve_plugin_impaired{driver="cpu.reserve.dra",reason="NotEnforced",instance="n1"}', "1x60"),),
            (
                ('dra_reserve_plugin_impaired{driver="cpu.reserve.dra",reason="NotEnforced",instance="n1"}', "0x60"),
                ('dra_reserve_plugin_impaired{driver="cpu.reserve.dra",reason="DriverImpaired",instance="n1"}', "1x60"),
            ),
            labels={"driver": "cpu.reserve.dra"},
        ),
    ),
    Alert(
        "DraReservePluginImpaired",
        'sum by (driver, reason) (dra_reserve_plugin_impaired{reason=~"NotRecovered|DriverImpaired"}) > 0',
        "5m",
        Severity.WARNING,
        "A driver runs on some nodes but prepares no devices.",
        Samples(
            (('dra_reserve_plugin_impaired{driver="cpu.reserve.dra",reason="DriverImpaired",instance="n1"}', "1x60"),),
            (('dra_reserve_plugin_impaired{driver="cpu.reserve.dra",reason="DriverImpaired",instance="n1"}', "0x60"),),
            labels={"driver": "cpu.reserve.dra", "reason": "DriverImpaired"},
        ),
    ),
    Alert(
        "DraReserveOrphans",
        "sum by (driver) (dra_reserve_plugin_orphans) > 0",
        "15m",
        Severity.WARNING,
        "Nodes hold devices for deleted claims.",
        Samples(
            (('dra_reserve_plugin_orphans{driver="gpu.reserve.dra",instance="n1"}', "2x60"),),
            (('dra_reserve_plugin_orphans{driver="gpu.reserve.dra",instance="n1"}', "0x60"),),
            labels={"driver": "gpu.reserve.dra"},
        ),
    ),
    Alert(
        "DraReserveExtenderInDoubt",
        "sum(dra_reserve_extender_doubts) > 0",
        "2m",
        Severity.WARNING,
        "The scheduler extender does not know the outcome of some binds; their capacity stays held.",
        Samples((("dra_reserve_extender_doubts", "1x60"),), (("dra_reserve_extender_doubts", "0 1 0 1 0x60"),)),
    ),
    Alert(
        "DraReserveExtenderNobodyBinds",
        "sum(dra_reserve_extender_leading) == 0 or (count(last_over_time(dra_reserve_extender_leading[6h])) unless "
        "count(dra_reserve_extender_leading))",
        "2m",
        Severity.CRITICAL,
        "No scheduler extender binds: kube-scheduler schedules no pod.",
        Samples(
            (('dra_reserve_extender_leading{pod="a"}', "0x60"),),
            (('dra_reserve_extender_leading{pod="a"}', "1x60"),),
            fires_as_well=(('dra_reserve_extender_leading{pod="a"}', "1x10 stale"),),
        ),
    ),
    Alert(
        "DraReserveCertificateExpires",
        "min by (certificate) (dra_reserve_extender_certificate_expiry_seconds) < 14 * 86400 or "
        "min by (certificate) (dra_reserve_page_certificate_expiry_seconds) < 14 * 86400",
        "10m",
        Severity.WARNING,
        "A certificate of the scheduler extender or of the page expires within 14 days.",
        Samples(
            (('dra_reserve_extender_certificate_expiry_seconds{certificate="serving",pod="a"}', "1200000x60"),),
            (('dra_reserve_extender_certificate_expiry_seconds{certificate="serving",pod="a"}', "1300000x60"),),
            labels={"certificate": "serving"},
            fires_as_well=(('dra_reserve_page_certificate_expiry_seconds{certificate="serving"}', "-60x60"),),
        ),
    ),
    Alert(
        "DraReserveExtenderCertificateEnds",
        "min by (certificate) (dra_reserve_extender_certificate_expiry_seconds) < 2 * 86400",
        "0m",
        Severity.CRITICAL,
        "A certificate of the scheduler extender expires within 2 days or has expired: then no pod is scheduled.",
        Samples(
            (('dra_reserve_extender_certificate_expiry_seconds{certificate="client",pod="a"}', "60 0 -60x60"),),
            (('dra_reserve_extender_certificate_expiry_seconds{certificate="client",pod="a"}', "200000x60"),),
            labels={"certificate": "client"},
        ),
    ),
    Alert(
        "DraReserveNobodyMigrates",
        "sum(dra_reserve_descheduler_leading) == 0 or (count(last_over_time(dra_reserve_descheduler_leading[6h])) "
        "unless count(dra_reserve_descheduler_leading))",
        "5m",
        Severity.WARNING,
        "No descheduler leads: migrations do not go on.",
        Samples(
            (('dra_reserve_descheduler_leading{pod="a"}', "0x60"),),
            (('dra_reserve_descheduler_leading{pod="a"}', "1x60"),),
            fires_as_well=(('dra_reserve_descheduler_leading{pod="a"}', "1x10 stale"),),
        ),
    ),
    Alert(
        "DraReserveMigrationsFail",  # a series begins with its first failure, which `increase` does not see
        'sum by (reason) (increase(dra_reserve_descheduler_migrations_total{outcome="Failed"}[1h])) > 1.5',
        "0m",
        Severity.WARNING,
        "Three or more migrations have failed for one reason within an hour.",
        Samples(
            (('dra_reserve_descheduler_migrations_total{outcome="Failed",reason="Unschedulable"}', "1 2 3x60"),),
            (
                ('dra_reserve_descheduler_migrations_total{outcome="Failed",reason="Timeout"}', "1 2x60"),
                ('dra_reserve_descheduler_migrations_total{outcome="Succeeded",reason=""}', "0+10x60"),
            ),
            labels={"reason": "Unschedulable"},
        ),
    ),
    Alert(
        "DraReserveMigrationsWait",
        "sum by (reason) (dra_reserve_descheduler_migration_waiting) > 0",
        "30m",
        Severity.WARNING,
        "Migrations have waited for a limit or a disruption budget for half an hour.",
        Samples(
            (('dra_reserve_descheduler_migration_waiting{reason="PodDisruptionBudget"}', "2x90"),),
            (('dra_reserve_descheduler_migration_waiting{reason="MaxMigratingPerNode"}', "0 4 0 4 0x90"),),
            minute=60,
            labels={"reason": "PodDisruptionBudget"},
        ),
    ),
    Alert(
        "DraReserveRoundsFail",
        'sum(increase(dra_reserve_descheduler_rounds_total{outcome="failed"}[30m])) > 1.5',
        "0m",
        Severity.WARNING,
        "Rounds of descheduling fail: the descheduler looks at the cluster, and decides nothing.",
        Samples(
            (('dra_reserve_descheduler_rounds_total{outcome="failed",pod="a"}', "0x10 1x5 2x5 3x60"),),
            (
                ('dra_reserve_descheduler_rounds_total{outcome="failed",pod="a"}', "0x10 1x60"),
                ('dra_reserve_descheduler_rounds_total{outcome="completed",pod="a"}', "0+1x60"),
            ),
        ),
    ),
    Alert(
        "DraReserveDeschedulerPluginFails",
        "sum by (plugin) (increase(dra_reserve_descheduler_plugin_faults_total[30m])) > 1.5",
        "0m",
        Severity.WARNING,
        "A plugin of the descheduler fails in round after round: its pods stay, the other plugins go on.",
        Samples(
            (('dra_reserve_descheduler_plugin_faults_total{plugin="TooOld",pod="a"}', "0x10 1x5 2x5 3x60"),),
            (('dra_reserve_descheduler_plugin_faults_total{plugin="TooOld",pod="a"}', "0x10 1x60"),),
            labels={"plugin": "TooOld"},
        ),
    ),
    Alert(
        "DraReserveLoadUnknown",
        "max(dra_reserve_descheduler_node_metrics_expired) > 0",
        "15m",
        Severity.WARNING,
        "Nodes do not report what they use: LowNodeLoad neither relieves these nodes nor moves pods to them.",
        Samples(
            (('dra_reserve_descheduler_node_metrics_expired{pod="a"}', "3x60"),),
            (('dra_reserve_descheduler_node_metrics_expired{pod="a"}', "0 1 0 1 0x60"),),
        ),
    ),
    Alert(
        "DraReserveApprovalsWait",
        "sum(dra_reserve_descheduler_approvals_waiting) > 0",
        "30m",
        Severity.WARNING,
        "Migrations have waited for the approval of a person for half an hour; without an answer they expire.",
        Samples(
            (('dra_reserve_descheduler_approvals_waiting{pod="a"}', "2x90"),),
            (('dra_reserve_descheduler_approvals_waiting{pod="a"}', "0 2 0 2 0x90"),),
            minute=60,
        ),
    ),
    Alert(
        "DraReserveNodeMetricsStale",
        'sum by (reason) (dra_reserve_batch_nodes_degraded{reason=~"stale|no system usage"}) > 0',
        "5m",
        Severity.WARNING,
        "Nodes have stopped to report what they use, so they offer batch pods no more than what these hold.",
        Samples(
            (('dra_reserve_batch_nodes_degraded{reason="stale"}', "2x60"),),
            (
                ('dra_reserve_batch_nodes_degraded{reason="stale"}', "0 1 0 1 0x60"),
                ('dra_reserve_batch_nodes_degraded{reason="disabled"}', "9x60"),
                ('dra_reserve_batch_nodes_degraded{reason="no report"}', "9x60"),
            ),
            labels={"reason": "stale"},
        ),
    ),
    Alert(
        "DraReserveColocationConfigInvalid",
        "max by (key) (dra_reserve_slo_config_errors) > 0",
        "5m",
        Severity.WARNING,
        "The ConfigMap slo-controller-config has an error: the last good value of the key stays in force.",
        Samples(
            (('dra_reserve_slo_config_errors{key="colocation-config",pod="a"}', "1x60"),),
            (('dra_reserve_slo_config_errors{key="colocation-config",pod="a"}', "0 1 0x60"),),
            labels={"key": "colocation-config"},
        ),
    ),
    Alert(
        "DraReserveSuppressionBlind",
        'sum(dra_reserve_node_suppression{level=~"holding|floor"}) > 0',
        "5m",
        Severity.WARNING,
        "Nodes cannot measure what they use: their batch pods are held back as before, and then to a minimum.",
        Samples(
            (('dra_reserve_node_suppression{level="floor",instance="n1"}', "1x60"),),
            (
                ('dra_reserve_node_suppression{level="floor",instance="n1"}', "0x60"),
                ('dra_reserve_node_suppression{level="held-back",instance="n1"}', "1x60"),
            ),
        ),
    ),
    Alert(
        "DraReserveBatchPodsStarve",
        "count(dra_reserve_node_best_effort_limit_cpus < 0.1 and dra_reserve_node_batch_pods > 0) > 0",
        "1h",
        Severity.WARNING,
        "For an hour, batch pods of some nodes have had nearly no CPU time: other pods use all of these nodes.",
        Samples(
            (
                ('dra_reserve_node_best_effort_limit_cpus{instance="n1"}', "0.02x120"),
                ('dra_reserve_node_batch_pods{instance="n1"}', "3x120"),
            ),
            (
                ('dra_reserve_node_best_effort_limit_cpus{instance="n1"}', "0.02x120"),
                ('dra_reserve_node_batch_pods{instance="n1"}', "0x120"),
                ('dra_reserve_node_best_effort_limit_cpus{instance="n2"}', "Inf+0x120"),
                ('dra_reserve_node_batch_pods{instance="n2"}', "3x120"),
            ),
            minute=90,
        ),
    ),
    Alert(
        "DraReserveBatchLimitsReset",
        "sum by (value) (increase(dra_reserve_node_batch_values_reset_by_others_total[15m])) > 10",
        "0m",
        Severity.WARNING,
        "Another process replaces the limits of batch pods again and again: between two writes they are not in force.",
        Samples(
            (('dra_reserve_node_batch_values_reset_by_others_total{value="quota",instance="n1"}', "0+2x60"),),
            (('dra_reserve_node_batch_values_reset_by_others_total{value="quota",instance="n1"}', "0x20 3x40"),),
            labels={"value": "quota"},
        ),
    ),
    Alert(
        "DraReserveNobodyAppliesProfiles",
        "sum(dra_reserve_profiles_leading) == 0 or (count(last_over_time(dra_reserve_profiles_leading[6h])) unless "
        "count(dra_reserve_profiles_leading))",
        "15m",
        Severity.WARNING,
        "Changes of ClusterColocationProfiles have no effect: no controller writes them into the admission policy.",
        Samples(
            (('dra_reserve_profiles_leading{pod="a"}', "0x60"),),
            (('dra_reserve_profiles_leading{pod="a"}', "1x60"),),
            fires_as_well=(('dra_reserve_profiles_leading{pod="a"}', "1x10 stale"),),
        ),
    ),
)


def group() -> Json:
    """Return the rules as Prometheus reads them."""
    return {"name": "dra-reserve", "rules": [_rule(alert) for alert in ALERTS]}


def _rule(alert: Alert) -> Json:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasts,
        "labels": {"severity": alert.severity.value},
        "annotations": {"summary": alert.summary, "runbook_url": alert.runbook_url},
    }


def tests(rules: str) -> Json:
    """Return promtool's unit tests: each alert fires on its samples, and is quiet on the others."""
    cases = []
    for alert in ALERTS:
        samples = alert.samples
        fired = {
            "exp_labels": {"severity": alert.severity.value, **(samples.labels or {})},
            "exp_annotations": {"summary": alert.summary, "runbook_url": alert.runbook_url},
        }
        firing = [group for group in (samples.fires, samples.fires_as_well) if group]
        for series, expected in (*((group, [fired]) for group in firing), (samples.quiet, [])):
            cases.append(
                {
                    "name": f"{alert.name} {'fires' if expected else 'is quiet'}",
                    "interval": "1m",
                    "input_series": [{"series": name, "values": values} for name, values in series],
                    "alert_rule_test": [
                        {"eval_time": f"{samples.minute}m", "alertname": alert.name, "exp_alerts": expected}
                    ],
                }
            )
    return {"rule_files": [rules], "evaluation_interval": "1m", "tests": cases}
