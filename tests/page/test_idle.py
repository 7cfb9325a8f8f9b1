"""The view "Idle" in a real Chromium: its numbers, its time lines, its links, and axe."""

from __future__ import annotations

import pytest

from bench.page_cluster import served_page, waiting_cluster
from dra.cli.page.access import Refusal, RefusedError
from dra.engine.device_usage.groups import DeviceNumbers, UsageGroup
from dra.engine.device_usage.over_time import tabulate
from dra.engine.device_usage.recorded import RecordedUse
from dra.engine.device_usage.timelines import SPANS
from tests.page.test_page import chromium, go, shot, tab, violations

__all__ = ["chromium", "tab"]  # fixtures

pytestmark = pytest.mark.slow

NOW = 1_795_000_000.0
HOUR = 3600.0
TEAMS = {
    UsageGroup("vision", "jobs.batch/forgotten", "gpu.example.com"): [(30, 20, 8, 8), (20, 0, 8, 0)],
    UsageGroup("ml", "jobs.batch/train-0", "gpu.example.com"): [(24, 12, 4, 4), (12, 0, 12, 12)],
    UsageGroup("speech", "statefulsets.apps/notebook", "gpu.example.com"): [
        (hour, hour - 1, 2, hour // 3 % 2 * 2) for hour in range(22, 0, -1)
    ],
    UsageGroup("search", "deployments.apps/embed", "gpu.example.com"): [(9, 0, 6, 5)],
    UsageGroup("batch", '"><b>x</b>', "gpu.example.com"): [(7, 6, 1, 1)],
}
"""What teams hold and use: (from, to, held, used), in hours before now."""


class PlayedUse:
    """A day of teams, and a week that cannot be read."""

    def __init__(self):
        self.known_since = None

    async def read(self, *, by, span, namespaces):
        if span is SPANS["7d"] and by == "class":
            raise RefusedError(Refusal(503, "the history cannot be read now"))
        seen = RecordedUse()
        for minutes in range(30 * 60, 0, -2):
            now, hours = NOW - minutes * 60, minutes / 60
            seen.record({group: count(phases, hours) for group, phases in TEAMS.items()}, now=now)
        history = seen.history(span=span, namespaces=namespaces, now=NOW)
        lines = seen.timelines(by, history.keys(), span=span, namespaces=namespaces, now=NOW)
        return tabulate(by, history, lines, span=span, now=NOW, known_since=self.known_since)


def count(phases, hours):
    held, used = next(((held, used) for begin, end, held, used in phases if end < hours <= begin), (0, 0))
    return DeviceNumbers(held, used)


@pytest.fixture(scope="module")
def played():
    return PlayedUse()


@pytest.fixture(scope="module")
def served(played):
    with served_page(waiting_cluster(), use=played) as page:
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_team_that_holds_without_using_comes_first(tab, served, scheme):
    page = tab(served.url, color_scheme=scheme)
    page.keyboard.type("gi")
    row = page.get_by_role("row").nth(1)
    row.get_by_role("rowheader", name="vision").wait_for()
    assert row.get_by_role("cell").all_inner_texts()[:8] == ["8", "0", "8", "20h", "192.0", "32.0", "160.0", "17%"]
    assert row.get_by_role("img").get_attribute("aria-label").startswith("Last 24 hours: held 8 now")
    assert violations(page) == []
    shot(page, "idle" if scheme == "light" else "idle-dark")


def test_the_colours_of_the_lines_are_those_of_the_scheme(tab, served):
    fills = []
    for scheme in ("light", "dark"):
        page = tab(served.url, color_scheme=scheme)
        go(page, "idle")
        line = page.locator("svg.lines path.held").first
        line.wait_for(state="attached")
        fills.append(line.evaluate("path => getComputedStyle(path).fill"))
        assert line.evaluate("path => path.getBoundingClientRect().width") > 50
    assert fills == ["rgb(91, 134, 214)", "rgb(74, 111, 184)"]


def test_grouping_and_time_are_in_the_address(tab, served):
    page = tab(served.url)
    go(page, "idle")
    page.get_by_role("link", name="workload", exact=True).click()
    page.get_by_role("rowheader", name="vision/jobs.batch/forgotten").wait_for()
    page.get_by_role("rowheader", name='batch/"><b>x</b>').wait_for()
    page.get_by_role("link", name="7 days").click()
    page.get_by_role("table", name="Devices by workload in the last 7 days").wait_for()
    assert page.evaluate("location.hash") == "#/idle?by=workload&over=7d"
    assert page.get_by_role("link", name="7 days").get_attribute("aria-current") == "true"
    page.get_by_role("link", name="Idle", exact=True).click()
    page.get_by_role("table", name="Devices by namespace in the last 24 hours").wait_for()


def test_what_the_page_has_seen_is_said_so(tab, served, played):
    played.known_since = NOW - 1200
    page = tab(served.url)
    go(page, "idle?by=class")
    page.get_by_role("note").get_by_text("Seen since 2026-11-18 10:46 UTC").wait_for()
    assert violations(page) == []
    played.known_since = None


def test_a_history_that_cannot_be_read_says_why(tab, served):
    tab.expected.append("503")
    page = tab(served.url)
    go(page, "idle?by=class&over=7d")
    page.get_by_role("alert").get_by_text("the history cannot be read now").wait_for()


def test_a_bundle_has_no_history(tab):
    tab.expected.append("404")
    with served_page(waiting_cluster()) as bundle:
        page = tab(bundle.url)
        go(page, "idle")
        page.get_by_role("alert").get_by_text("a bundle is of one moment").wait_for()
