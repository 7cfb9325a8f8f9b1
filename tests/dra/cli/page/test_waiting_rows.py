"""The reasons of waiting claims are those of `kubectl dra explain`, computed one at a time within a budget."""

import msgspec
import pytest

from dra.cli.page import waiting_rows
from dra.cli.page.page_tables import PageTables
from dra.cli.page.views import COLUMNS
from dra.engine.diagnosis.live_cluster import LiveCluster
from tests.dra.cli.page.test_page_tables import NOW, unschedulable
from tests.dra.engine.diagnosis.cluster_states import claim, pod, snapshot


class Timer:
    """Seconds that pass with each call."""

    def __init__(self, step):
        self.at, self.step = 1_000.0, step

    def __call__(self):
        self.at += self.step
        return self.at


def tables_of(*claims, pods):
    taken = snapshot(*claims, pods=pods)
    cluster = LiveCluster()
    for observe, objects in (
        (cluster.observe_node, taken.nodes),
        (cluster.observe_slice, taken.slices),
        (cluster.observe_claim, taken.claims),
        (cluster.observe_pod, taken.pods),
    ):
        for item in objects:
            observe(item)
    cluster.set_surroundings(taken)
    tables = PageTables(cluster)
    settle(tables)
    return tables


def settle(tables):
    tables.update(now=NOW)
    while tables.has_work:
        tables.update(now=NOW)


def waiting(tables):
    names = COLUMNS["waiting"]
    return [dict(zip(names, cells, strict=True)) for cells in tables.views["waiting"].by_key.values()]


@pytest.fixture
def timer(monkeypatch):
    quick = Timer(step=0.01)
    monkeypatch.setattr(waiting_rows, "perf_counter", quick)
    return quick


@pytest.fixture
def tables(timer):
    del timer  # the tables are made while it is set
    return tables_of(
        claim("a", count=9),
        claim("b", count=9),
        claim("c"),
        pods=(unschedulable(pod("p", "a")), unschedulable(pod("q", "b")), unschedulable(pod("r", "c"))),
    )


def test_a_row_has_the_words_of_the_scheduler_until_the_reason_is_known(tables):
    assert [(row["NAME"], row["EQUAL"], row["NAMES"]) for row in waiting(tables)] == [("a", "1", "b"), ("c", "0", "")]
    assert waiting(tables)[1]["WHY"] == "0/2 nodes are available."
    for _ in range(2):
        timer_runs(tables)
        tables.update(now=NOW, explain=True)
    satisfiable, other = waiting(tables)
    assert satisfiable["WHY"].startswith("Unsatisfiable: ")
    assert other["WHY"].startswith("RefusedByScheduler: scheduler ")
    assert other["WHY"].endswith("3 nodes (n1, n2, n3): can run it")


def timer_runs(tables):
    waiting_rows.perf_counter.at += max(tables.waiting.due_in(), 0)


def test_nothing_is_explained_while_nobody_looks(tables):
    tables.update(now=NOW)
    assert waiting(tables)[1]["WHY"] == "0/2 nodes are available."


def test_an_expensive_reason_waits_for_twenty_times_its_own_time(tables, timer):
    timer.step = 1.0
    tables.update(now=NOW, explain=True)
    timer.step = 0.0
    assert tables.waiting.due_in() == pytest.approx(19.0)
    tables.update(now=NOW, explain=True)
    assert waiting(tables)[1]["WHY"] == "0/2 nodes are available."
    timer.at += 19.0
    tables.update(now=NOW, explain=True)
    assert waiting(tables)[1]["WHY"].startswith("RefusedByScheduler")


def test_a_known_reason_is_computed_again_when_it_is_old_or_its_claim_has_changed(tables, timer):
    for _ in range(2):
        timer_runs(tables)
        tables.update(now=NOW, explain=True)
    timer.step = 0.0
    assert 0 < tables.waiting.due_in() <= waiting_rows.FRESH_SECONDS
    more = msgspec.convert({"pods": [unschedulable(pod("s", "c"))]}, type(tables.cluster.snapshot)).pods
    tables.cluster.observe_pod(more[0])
    settle(tables)
    assert tables.waiting.due_in() <= 1.0
    changed = next(row for row in waiting(tables) if row["NAME"] == "c")
    assert (changed["WAITING"], changed["WHY"][:18]) == ("2", "RefusedByScheduler"), "the old reason stays meanwhile"


def test_without_waiting_claims_nothing_is_due():
    assert tables_of(claim("a"), pods=()).waiting.due_in() is None
