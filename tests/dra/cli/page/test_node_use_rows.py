"""The rows of nodes: what is used beside what is held, and what a change of a report costs."""

from datetime import timedelta

import msgspec
import pytest

from dra.cli.page.page_tables import PageTables
from dra.cli.page.views import COLUMNS
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.node_reports import NodeReport
from dra.model.node_pods import AgentNode
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.diagnosis.colocated import GIB, NOW, at, busy, metric, node, pod, snapshot

USE = slice(COLUMNS["nodes"].index("CPU"), None)


class Page:
    """The tables of a live cluster with one busy node."""

    def __init__(self, **parts):
        found = snapshot(**(busy() | parts))
        self.live = LiveCluster()
        self.tables = PageTables(self.live)
        served = found.node_metrics is not None
        self.live.set_served(reservations=False, migrations=False, node_metrics=served)
        for each in found.nodes:
            self.live.observe_node(each)
        for each in found.pods:
            self.live.observe_pod(each)
        for each in found.node_metrics or ():
            self.live.observe_node_metric(each)
        self.live.set_surroundings(found)
        self.update()

    def update(self, now=NOW):
        """Bring all rows up to date; return the views that changed."""
        changed = set()
        for _ in range(50):
            changed |= {patch.view for patch in self.tables.update(now=now)}
            if not self.tables.has_work:
                return changed
        raise AssertionError("the rows never settle")

    @property
    def cells(self):
        return self.tables.views["nodes"].by_key["n1"][USE]

    @property
    def problems(self):
        return {cells[1] for cells in self.tables.views["problems"].by_key.values()}


def test_a_row_has_used_held_and_whole_of_cpu_and_memory_and_held_and_offered_of_batch():
    assert Page().cells == (
        "6000/7000/16000",
        f"{20 * GIB}/{18 * GIB}/{64 * GIB}",
        "3000/8000",
        f"{3 * GIB}/{16 * GIB}",
        "fresh",
    )


@pytest.mark.parametrize(
    ("parts", "cells"),
    [
        pytest.param({"metrics": None, "nodes": [node(batch=None)]}, ("", "", "", "", ""), id="no-colocation"),
        pytest.param(
            {"metrics": [], "nodes": [node(batch=None)], "pods": []},
            ("/0/16000", f"/0/{64 * GIB}", "", "", "absent"),
            id="no-report",
        ),
        pytest.param(
            {"gaps": ["pods of other namespaces"]},
            ("6000//16000", f"{20 * GIB}//{64 * GIB}", "/8000", f"/{16 * GIB}", "fresh"),
            id="without-the-right-to-list-all-pods",
        ),
        pytest.param(
            {"gaps": ["nodemetrics.slo.koordinator.sh"], "metrics": []},
            ("/7000/16000", f"/{18 * GIB}/{64 * GIB}", "3000/8000", f"{3 * GIB}/{16 * GIB}", ""),
            id="without-the-right-to-list-reports",
        ),
    ],
)
def test_what_is_not_known_is_empty(parts, cells):
    assert Page(**parts).cells == cells


def test_a_report_touches_the_rows_of_nodes_alone():
    page = Page()
    changed = metric()
    changed["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = "7"
    page.live.observe_node_metric(msgspec.json.decode(msgspec.json.encode(changed), type=NodeReport))
    assert page.update() == {"nodes"}
    assert page.cells[0] == "7000/7000/16000"


def test_a_report_grows_stale_without_an_event():
    page = Page()
    page.live.mark_use_dirty()
    page.update(now=NOW + timedelta(minutes=15))
    assert page.cells[-1] == f"stale {at(seconds=35)}"
    assert "NodeNotSampled" in page.problems


def test_a_pod_that_comes_and_goes_changes_what_is_held():
    page = Page()
    late = msgspec.convert(pod("late", batch_cpu=500), SchedulerPod)
    page.live.observe_pod(late)
    page.update()
    assert page.cells[2] == "3500/8000"
    page.live.forget_pod(late)
    page.update()
    assert page.cells[2] == "3000/8000"


def test_what_the_controller_writes_is_shown():
    page = Page()
    page.live.observe_node(msgspec.convert(node(batch=(4900, 16 * GIB)), AgentNode))
    page.update()
    assert page.cells[2] == "3000/4900"
