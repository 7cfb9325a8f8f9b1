"""Metrics, alerts and dashboard before a real Prometheus, which scrapes our processes while they work.

Not a part of CI, since Prometheus has to be compiled first: `make prometheus`.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from functools import partial

import pytest

from dra.cli.reference.metrics import metric_families
from release.monitoring.alerts import ALERTS
from tests.cluster.ports import LOOPBACK
from tests.cluster.waiting import until
from tests.scenarios.monitoring.conftest import DEPLOY, RULES
from tests.scenarios.monitoring.expected import (
    EXPRESSIONS,
    OF_PROMETHEUS,
    PROCESSES,
    QUIET,
    SERIES_AT_MOST,
    WITHOUT_SERIES,
    closed,
)
from tests.scenarios.monitoring.prometheus import Prometheus, promtool, selectors
from tests.scenarios.monitoring.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.long]


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
                selector = f'{name}{{pod="{each.pod}"}}'
                if family.name in WITHOUT_SERIES:
                    assert server.series(selector) == [], WITHOUT_SERIES[family.name]
                    continue
                until(partial(_has_series, server, selector), within=60, saying=f"{selector} has series")
                series = server.series(selector)
                for labels in series:
                    own = {label: value for label, value in labels.items() if label not in OF_PROMETHEUS}
                    assert own.keys() <= set(family.labels), labels  # Prometheus drops a label that is empty
                    for label, value in own.items():
                        assert re.fullmatch(closed(label), value), (name, label, value)


def _has_series(server: Prometheus, selector: str) -> bool:
    return server.series(selector) != []


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
    alerts = {
        "controller": "DraReserveNobodyLeads",
        "extender": "DraReserveExtenderNobodyBinds",
        "descheduler": "DraReserveNobodyMigrates",
        "profiles": "DraReserveNobodyAppliesProfiles",
    }
    for name in alerts:
        assert world.processes[name].stop() == 0, world.processes[name].tail()
    for alert in alerts.values():
        missed = partial(_pending, server, alert)
        until(missed, within=30, saying=f"{alert} is pending")


def _pending(server: Prometheus, alert: str) -> bool:
    (state,) = [rule["state"] for rule in server.rules() if rule["name"] == alert]
    return bool(state == "pending")
