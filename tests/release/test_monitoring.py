"""Dashboard and alerts ask only for what is exposed; each alert fires on its samples, as Prometheus evaluates it.

The second needs promtool: `make alerts` builds it. Elsewhere it is left out, and the summary says so.
"""

import json
import os
import re
import subprocess
from operator import itemgetter
from pathlib import Path

import pytest
import yaml

from dra.api.colocation.well_known import KEY_COLOCATION, KEY_QOS, KEY_THRESHOLD
from dra.cli.reference.metrics import metric_families, metric_registries
from dra.engine.claims.device_counts import COUNTED_STAGES, HeldBy
from dra.engine.messages.documentation import TREE_URL
from kubeletplugin.colocation.batch_pods.metrics import LEVELS
from release.monitoring.__main__ import files, main
from release.monitoring.alerts import ALERTS
from release.monitoring.alerts import tests as unit_tests
from release.monitoring.dashboard import PANELS, dashboard
from tests.cluster import binaries
from tests.scenarios.monitoring import expected
from tests.violations import for_each

ROOT = Path(__file__).parents[2]
SERIES = {name: family for found in metric_families().values() for family in found for name in family.series}
OF_PROMETHEUS = {"job", "instance", "pod", "le"}
"""Labels that scraping adds, and that histograms have."""

FUNCTIONS = {"histogram_quantile", "last_over_time"}
"""Those with a line below in their names: metrics have one, too."""
VALUES = {
    "held_by": {each.value for each in HeldBy},
    "stage": set(COUNTED_STAGES.values()),
    "reason": expected.REASONS,
    "key": {KEY_COLOCATION, KEY_THRESHOLD, KEY_QOS},
    "level": set(LEVELS.values()),
    "outcome": {"Succeeded", "Failed", "completed", "failed"},
    "room": {"free", "full"},
    "certificate": {"serving", "client-authority", "client"},
    "code": {str(code) for code in (0, 200, 201, 403, 404, 409, 422, 429, 500, 503)},
}

EXPRESSIONS = [(each.name, each.expression) for each in ALERTS] + [
    (f"{panel.title}-{number}", line.expression) for panel in PANELS for number, line in enumerate(panel.lines)
]
SELECTOR = re.compile(r"\b([a-z]\w*_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


def selectors(expression):
    """Every series that an expression names, with its matchers."""
    bare = re.sub(r"\b(by|without) \([^)]*\)", "", expression)
    return [(name, MATCHER.findall(inside)) for name, inside in SELECTOR.findall(bare) if name not in FUNCTIONS]


@for_each(EXPRESSIONS, name=itemgetter(0))
def test_an_expression_asks_for_metrics_labels_and_values_that_exist(member):
    _, expression = member
    found = selectors(expression)
    assert found
    labels = set(OF_PROMETHEUS)
    for name, matchers in found:
        family = SERIES[name]
        labels |= set(family.labels)
        for label, operator, value in matchers:
            assert label in {*family.labels, "le"}
            pattern = value if "~" in operator else re.escape(value)
            for alternative in pattern.split("|"):
                assert any(re.fullmatch(alternative, each) for each in VALUES[label]), alternative
    grouped = {label for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in re.split(r",\s*", labels)}
    assert grouped <= labels


@for_each(EXPRESSIONS, name=itemgetter(0))
def test_counters_are_only_asked_for_their_growth(member):
    _, expression = member
    for name, _ in selectors(expression):
        growing = SERIES[name].type in {"counter", "histogram"}
        assert growing == bool(re.search(rf"(rate|increase)\({name}\b", expression))


def initial_samples():
    """Return what all processes expose before any event."""
    registries = metric_registries().values()
    return [sample for registry in registries for metric in registry.collect() for sample in metric.samples]


def test_make_prometheus_knows_all_processes_expressions_and_values():
    """Its scenario is not a part of CI."""
    families = metric_families()
    assert set(expected.PROCESSES.values()) == families.keys()
    assert expected.SERIES_AT_MOST.keys() == expected.PROCESSES.keys()
    page = (ROOT / "docs/how-to/metrics.md").read_text()
    stated = re.findall(r"^\| [^|]+ \| \d+ \((\d+)\) \|", page, re.MULTILINE)
    assert [int(count) for count in stated] == list(expected.SERIES_AT_MOST.values())
    assert expected.QUIET.keys() <= expected.EXPRESSIONS.keys()
    assert expected.WITHOUT_SERIES.keys() <= {family.name for group in families.values() for family in group}
    values = {
        (label, value)
        for label, value in (
            *((label, value) for sample in initial_samples() for label, value in sample.labels.items()),
            *((label, value) for label, known in VALUES.items() for value in known),
        )
        if label not in expected.OF_PROMETHEUS
    }
    assert not [(label, value) for label, value in values if not re.fullmatch(expected.closed(label), value)]


BEGIN_LATER = {
    "dra_reserve_descheduler_migrations_total": "the words of Koordinator are many, the alert allows for it",
    "dra_reserve_descheduler_plugin_faults_total": "with the plugins of the configuration",
}
"""Counters that have no series before the first event, and why an alert on their growth works."""


def test_a_counter_whose_growth_is_alarming_begins_with_zero():
    """`increase` does not see the first event of a series that begins with it."""
    begun = {sample.name for sample in initial_samples()}
    growing = {name for alert in ALERTS for name in re.findall(r"increase\((\w+)", alert.expression)}
    assert growing - begun == BEGIN_LATER.keys()


def test_the_files_are_what_the_descriptions_make(capsys):
    assert main(["--check"]) == 0, capsys.readouterr().err
    assert len(files()) == 4


def test_eleven_panels_are_enough():
    panels = dashboard()["panels"]
    assert [panel["title"] for panel in panels] == [
        "How full",
        "Held by what",
        "Waiting why",
        "How fast",
        "Errors",
        "Leaks",
        "Idle: held and not used",
        "Colocation: CPUs in use",
        "Colocation: nodes",
        "Descheduling: candidates",
        "Descheduling: rounds",
    ]
    for panel in panels:
        for target in panel["targets"]:
            used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert used <= set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
    json.dumps(panels)


def test_grafana_finds_what_it_needs_in_the_dashboard():
    """Its JSON model, as its manual describes it: there is no Grafana here to ask."""
    model = json.loads((ROOT / "deploy/monitoring/dashboard.json").read_text())
    assert model["uid"]
    assert len(model["uid"]) <= 40
    assert model["title"]
    assert model.get("id") is None  # Grafana's to give
    assert 36 <= model["schemaVersion"] <= 41  # of Grafana 9 to 12, which lift older ones
    (variable,) = model["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    source = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
    cells = []
    for panel in model["panels"]:
        assert panel["type"] == "timeseries"
        assert panel["datasource"] == source
        assert panel["fieldConfig"]["defaults"]["unit"] in {"short", "percentunit", "s", "ops"}
        assert panel["options"]["legend"]["displayMode"] in {"list", "table", "hidden"}
        assert panel["options"]["tooltip"]["mode"] in {"single", "multi", "none"}
        assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] in {"none", "normal", "percent"}
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells += [(place["x"] + right, place["y"] + down) for right in range(place["w"]) for down in range(place["h"])]
        assert [target["refId"] for target in panel["targets"]] == ["A", "B", "C", "D"][: len(panel["targets"])]
        assert all(target["datasource"] == source for target in panel["targets"])
    assert len(cells) == len(set(cells)), "panels lie on each other"
    assert len({panel["id"] for panel in model["panels"]}) == len(model["panels"])


def test_each_alert_has_a_page_and_each_page_an_alert():
    assert {path.stem for path in (ROOT / "docs/runbooks").glob("*.md")} == {alert.name for alert in ALERTS}
    for alert in ALERTS:
        text = (ROOT / alert.runbook_url.removeprefix(f"{TREE_URL}/")).read_text()
        assert text.startswith(f"# {alert.name}\n")
        assert "\n## Look\n\n```sh\n" in text
        assert "\n## Do\n" in text
        assert alert.summary.endswith(".")


@pytest.fixture(scope="module")
def promtool():
    program = binaries.promtool()
    if os.environ.get("DRA_PROMTOOL") == "build":
        return binaries.build(program)
    if not program.path.exists():
        pytest.skip("promtool is not built: make alerts")
    return program.path


def test_prometheus_takes_the_rules(promtool):
    subprocess.run([promtool, "check", "rules", ROOT / "deploy/monitoring/alerts.yaml"], check=True, timeout=60)


@pytest.mark.slow
def test_each_alert_fires_on_its_samples_and_is_quiet_on_others(promtool, tmp_path):
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump(unit_tests(str(ROOT / "deploy/monitoring/alerts.yaml"))))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def unreadable(promtool, folder, expressions):
    """Return what promtool says of expressions, each of which stands in a group of its name."""
    file = folder / "rules.yaml"
    groups = [{"name": name, "rules": [{"record": "it", "expr": each}]} for name, each in expressions]
    file.write_text(yaml.safe_dump({"groups": groups}))
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False, timeout=60)
    return done.stderr if done.returncode else ""


def test_prometheus_can_read_each_expression(promtool, tmp_path):
    assert not (said := unreadable(promtool, tmp_path, EXPRESSIONS)), said


def test_each_expression_that_prometheus_cannot_read_is_named(promtool, tmp_path):
    said = unreadable(promtool, tmp_path, [("first", "sum("), ("fine", "up"), ("second", "rate(up)")])
    assert 'group "first"' in said
    assert 'group "second"' in said
    assert 'group "fine"' not in said
