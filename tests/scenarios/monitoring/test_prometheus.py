"""Metrics, alerts and dashboard before a real Prometheus, which scrapes our processes while they work.

Not a part of CI, since Prometheus has to be compiled first: `make prometheus`.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from dra.cli.reference.metrics import LABEL_VALUES, metric_families
from dra.engine.claims.codes import Code
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from release.monitoring.alerts import ALERTS
from release.monitoring.dashboard import PANELS
from tests.cluster.ports import LOOPBACK
from tests.cluster.waiting import until
from tests.scenarios.monitoring import work
from tests.scenarios.monitoring.conftest import DEPLOY, RULES
from tests.scenarios.monitoring.prometheus import Prometheus, promtool, selectors
from tests.scenarios.monitoring.world import PROCESSES, World

pytestmark = [pytest.mark.cluster, pytest.mark.long]

OF_PROMETHEUS: Final = {"__name__", "job", "instance", "namespace", "pod", "container", "node", "le"}
"""Labels that scraping adds, and that histograms have."""

OPEN: Final = {
    "claim_namespace": r"[a-z0-9-]+|<other>",
    "code": r"0|[1-5]\d\d",
    "device_class": r"[a-z0-9.-]+|<none>|<other>",
    "driver": re.escape(work.DRIVER),
    "method": "DELETE|GET|PATCH|POST|PUT|WATCH",
    "reason": "|".join(each.value for each in (*Code, *PrepareRefusalReason)),
    "resource": r"-|[a-z]+(\.[a-z0-9.]+)?(/[a-z]+)?",
    "source": "rule|slice|resource_claim_template|extended_resource|",
    "workload": r"[a-z.]+/[a-z0-9.-]+|<none>|<other>",
    "write": "[A-Z][A-Za-z]+",
}
"""Labels whose values the reference page describes: what they look like. It lists those of all others."""

SERIES_AT_MOST: Final = {"controller": 260, "extender": 120, "kubelet-plugin": 60}
"""Of one process, as docs/how-to/metrics.md says. The largest parts are told beforehand: reasons, buckets, requests."""

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
    "Errors: API server: {{code}}": "the plane answers, and refuses nobody",
}
"""Expressions that have no data here, and why; all others must have some."""

EXPRESSIONS: Final = {each.name: each.expression for each in ALERTS} | {
    f"{panel.title}: {line.legend}": line.expression for panel in PANELS for line in panel.lines
}


def closed(label: str) -> str:
    """Return the pattern of a label's values."""
    return OPEN.get(label) or "|".join(re.findall("`([^`]+)`", LABEL_VALUES[label]))


def exposed(port: int) -> str:
    """Return /metrics of a process."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics") as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("way", ["scrape-file", "pod-monitors"])
def test_every_process_is_found_and_scraped(looking: dict[str, Prometheus], world: World, way: str) -> None:
    targets = looking[way].targets()
    assert {each["labels"]["instance"]: each["labels"]["pod"] for each in targets} == {
        f"{LOOPBACK}:{each.port}": each.pod for each in world.exposed
    }
    assert {(each["health"], each["lastError"]) for each in targets} == {("up", "")}


def test_every_metric_of_the_reference_page_has_its_type_and_help_and_no_other_is_there(
    server: Prometheus, world: World
) -> None:
    for each in world.exposed:
        found = server.metadata(pod=each.pod)
        expected = {family.name: (family.type, family.help) for family in metric_families()[PROCESSES[each.component]]}
        assert {name: (told["type"], told["help"]) for name, told in found.items()} == expected


def test_every_metric_has_series_and_they_have_their_labels_alone(server: Prometheus, world: World) -> None:
    for each in world.exposed:
        for family in metric_families()[PROCESSES[each.component]]:
            for name in family.series:
                series = server.series(f'{name}{{pod="{each.pod}"}}')
                assert series, f"{each.pod}: {name}: no series"
                for labels in series:
                    own = {label: value for label, value in labels.items() if label not in OF_PROMETHEUS}
                    assert own.keys() <= set(family.labels), labels  # Prometheus drops a label that is empty
                    for label, value in own.items():
                        assert re.fullmatch(closed(label), value), (name, label, value)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_has_data_unless_it_is_said_why_not(server: Prometheus, name: str) -> None:
    expression = EXPRESSIONS[name]
    if name in QUIET:
        assert server.query(expression) == [], QUIET[name]
    else:
        until(lambda: server.query(expression) != [], within=60, saying=f"{name} has data")


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_asks_for_series_that_there_are(server: Prometheus, name: str) -> None:
    found = selectors(server.parsed(EXPRESSIONS[name]))
    assert found
    for each in found:
        assert server.series(each["name"]), each["name"]


def test_every_rule_is_loaded_evaluated_and_inactive(server: Prometheus) -> None:
    def evaluated() -> bool:
        return all(rule["health"] == "ok" for rule in server.rules())

    until(evaluated, within=60, saying="all rules are evaluated")
    rules = {rule["name"]: (rule["type"], rule["state"], rule.get("lastError", "")) for rule in server.rules()}
    assert rules == {each.name: ("alerting", "inactive", "") for each in ALERTS}


def test_a_process_has_no_more_series_than_is_said(
    server: Prometheus, world: World, remark: Callable[[str], None]
) -> None:
    for each in world.exposed:
        ((sample,),) = [server.query(f'scrape_samples_post_metric_relabeling{{pod="{each.pod}"}}')]
        count = int(sample["value"][1])
        remark(f"{each.pod}: {count} series")
        assert count <= SERIES_AT_MOST[each.component]


def test_the_linter_has_nothing_to_say(server: Prometheus, world: World) -> None:
    assert server.process.alive
    for each in world.exposed:
        assert promtool("check", "metrics", stdin=exposed(each.port)) == ""
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    file = world.folder.path / "whole.yaml"
    file.write_text(f"scrape_config_files: [{DEPLOY / 'scrape.yaml'}]\nrule_files: [{RULES}]\n")
    assert "SUCCESS" in promtool("check", "config", "--lint=all", "--lint-fatal", str(file))


def test_who_is_gone_is_missed(server: Prometheus, world: World) -> None:
    """The last one: it stops what the others look at."""
    for name in ("controller", "extender"):
        assert world.processes[name].stop() == 0, world.processes[name].tail()
    for alert in ("DraReserveNobodyLeads", "DraReserveExtenderNobodyBinds"):
        missed = partial(_pending, server, alert)
        until(missed, within=30, saying=f"{alert} is pending")


def _pending(server: Prometheus, alert: str) -> bool:
    (state,) = [rule["state"] for rule in server.rules() if rule["name"] == alert]
    return bool(state == "pending")
