"""The page in a real Chromium: every view, live updates, ten thousand pods, reconnect, keys, and axe."""

import os
import re
from pathlib import Path

import msgspec
import pytest

from bench.page_cluster import claim, cluster, pod, served_page, waiting_cluster
from dra.kube.clock import SYSTEM, rfc3339
from dra.model.claims import ResourceClaim
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.diagnosis.colocated import GIB, busy, config, metric, node, pod_metric
from tests.dra.engine.diagnosis.colocated import pod as batch_pod
from tests.dra.engine.diagnosis.colocated import snapshot as colocated_snapshot
from tests.page.browsers import EXECUTABLE, sync_playwright

pytestmark = pytest.mark.slow

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
SCREENSHOTS = os.environ.get("DRA_SCREENSHOTS")
"""Folder for the screenshots of the documentation; without it, none are written."""

DOM_NODES_MAX = 2_500

VIEWS = {
    "overview": "Devices",
    "workloads": "jobs.batch/train-0",
    "claims": "InUse",
    "waiting": "Unschedulable: none of 24 nodes can run it",
    "nodes": "next-train",
    "devices": "gpu.example.com/node-1",
    "reservations": "night-batch",
    "migrations": "vision/train-0-1-0",
    "migrations?q=step:approval": "waits for approval",
    "rounds": "LowNodeUtilization",
    "usage": "speech",
    "usage?by=node": "node-24",
    "usage?by=workload": "/jobs.batch/",
    "problems": "LeftOver",
    "workload/ml/jobs.batch/train-0": "exists, uses 1 claim",
    "claim/ml/train-0-0": "jobs.batch/train-0",
    "pod/ml/huge-0": "from the scheduler",
    "node/node-1": "node-1",
    "device/gpu.example.com%2Fnode-1%2Fgpu-0": "vision/forgotten",
    "reservation/next-train": "Available on node node-1",
    "migration/train-0-1a2b": "train-0-1-0",
    "migration/rank-4-77aa": "LowNodeUtilization of profile default",
}
"""Address → a text that the view must show."""

UNSHOWN = {"device", "migration", "migrations?q=step:approval", "reservation", "node", "rounds", "usage-workload"}
"""Views of which the documentation has no screenshot: they look like others."""


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def small():
    with served_page(waiting_cluster()) as page:
        yield page


@pytest.fixture(scope="module")
def large():
    with served_page(cluster(nodes=1_000, pods=10_000)) as page:
        yield page


@pytest.fixture
def tab(chromium):
    """Yield a function that opens a tab; an error in the console fails the test."""
    complaints, contexts, expected = [], [], []

    def opened(url, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        page.locator("h1").wait_for()
        return page

    opened.expected = expected
    yield opened
    for each in contexts:
        each.close()
    assert [each for each in complaints if not any(text in each for text in expected)] == []


def go(page, view):
    page.evaluate("hash => { location.hash = hash }", f"#/{view}")


def shot(page, name):
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", animations="disabled")


def violations(page):
    """Return what axe finds; the page forbids foreign scripts, so axe comes in by the debugger."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']})")
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]


def changed(kind, content):
    return msgspec.convert(content, kind)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_shows_its_content_and_pleases_axe(tab, small, view, scheme):
    page = tab(small.url, color_scheme=scheme)
    go(page, view)
    page.get_by_text(VIEWS[view]).first.wait_for()
    assert violations(page) == []
    name = view.partition("/")[0].replace("?by=", "-") if "%" not in view else "device"
    if scheme == "light" and name not in UNSHOWN:
        shot(page, name)
    elif view in {"overview", "nodes"}:
        shot(page, f"{name}-dark")


def test_a_change_in_the_cluster_reaches_row_and_history(tab, small):
    page = tab(small.url)
    go(page, "claim/ml/huge")
    page.get_by_text("has no devices, 12 pods wait for it").wait_for()
    small.change(changed(SchedulerPod, pod("huge-new", "ml", "huge", version=small.next_version())))
    page.get_by_text("has no devices, 13 pods wait for it").wait_for()
    page.locator(".history").get_by_text("waiting").wait_for()
    shot(page, "history")


def test_filter_sort_and_deep_link_are_in_the_address(tab, small):
    page = tab(small.url)
    go(page, "claims?q=state:Pending")
    page.get_by_text("2 of 167").wait_for()
    page.get_by_role("columnheader", name="WAITING").get_by_role("button").click()
    page.get_by_role("columnheader", name="WAITING").get_by_role("button").click()
    assert page.evaluate("location.hash").endswith("sort=WAITING&desc=1")
    assert page.locator("tbody tr[data-key]").first.get_attribute("data-key") == "ml/huge"
    page.reload()
    page.get_by_text("2 of 167").wait_for()


def test_everything_can_be_done_with_keys(tab, small):
    page = tab(small.url)
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.get_by_role("heading", name="Claims", exact=True).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("ml huge")
    page.get_by_text("1 of 167").wait_for()
    page.keyboard.press("Escape")
    page.locator("tbody tr[data-key]").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="ml/huge", exact=True).wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Claims", exact=True).wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()


def test_every_view_has_a_key_and_the_help_names_it(tab, small):
    tab.expected.append("Failed to load resource")  # a bundle has no use over time
    page = tab(small.url)
    page.keyboard.press("?")
    told = page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    links = page.locator("nav li a")
    names = [links.nth(number).inner_text().split("\n")[0] for number in range(links.count())]
    assert "Waiting" in names
    for name in names:
        [key] = re.findall(rf"(\w) {name.lower()}\b", told)
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.locator("nav a[aria-current]", has_text=name).wait_for()


def test_entries_that_are_no_table_are_reached_with_keys(tab, small):
    page = tab(small.url)
    go(page, "waiting")
    page.get_by_role("link", name="ml/huge").wait_for()
    for key, chosen in (("j", "ml/huge"), ("j", "speech/sweep-learning-rate-0"), ("k", "ml/huge")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.textContent") == chosen
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="ml/huge", exact=True).wait_for()


def test_equal_claims_are_one_entry(tab, small):
    page = tab(small.url)
    go(page, "waiting")
    entry = page.locator(".waiting li", has_text="speech/sweep-learning-rate-0")
    entry.get_by_text("and 9 equal claims").wait_for()
    entry.get_by_text("10 pods waiting").wait_for()
    assert page.locator(".waiting li").count() == 3
    assert page.locator(".count").inner_text() == "12 claims"
    assert page.locator("nav a", has_text="Waiting").locator(".badge").inner_text() == "12"


def test_every_view_counts_the_same_problems(tab, small):
    page = tab(small.url)
    card = page.locator(".card", has_text="Problems")
    card.locator(".figure").wait_for()
    number = page.locator("nav a", has_text="Problems").locator(".badge").inner_text()
    assert card.locator(".figure").inner_text() == f"{number} problems"
    notes = card.locator("li", has_text="info").locator("b").inner_text()
    go(page, "problems")
    page.get_by_text(f"{number} problems, {notes} notes").wait_for()


def test_notes_alone_are_no_problems(tab):
    with served_page(cluster(nodes=2, pods=2, devices=1, free=1)) as served:
        page = tab(served.url)
        page.get_by_text("0 problems, 4 notes").wait_for()
        assert page.locator("nav .badge").count() == 0
        go(page, "problems")
        page.get_by_text("0 problems, 4 notes").wait_for()


def test_names_are_cut_last(tab, small):
    page = tab(small.url, viewport={"width": 1440, "height": 800})
    go(page, "claims?q=sweep")
    page.get_by_text("10 of 167").wait_for()
    cut = page.evaluate(
        "[...document.querySelectorAll('tbody td')].filter((cell) => cell.scrollWidth > cell.clientWidth)"
        ".map((cell) => cell.cellIndex)"
    )
    assert set(cut) <= {9}, "only the text of when a claim is released may be cut"


def test_a_time_line_has_an_axis(tab, small):
    page = tab(small.url)
    for view in ("reservations", "migrations"):
        go(page, view)
        page.get_by_role("columnheader", name="TIME LINE").locator(".ticks i").first.wait_for()
        labels = page.locator(".ticks i").all_inner_texts()
        assert len(labels) >= 2
        assert all(re.fullmatch(r"\d\d:\d\d", label) for label in labels), labels
        assert page.locator("tbody tr").first.locator(".tick").count() == len(labels)


def test_a_workload_leads_to_its_claims_pods_and_devices(tab, small):
    page = tab(small.url)
    go(page, "workloads?q=namespace:ml for:train-0")
    page.locator("tr[data-key='ml/jobs.batch/train-0']").click()
    page.get_by_role("heading", name="ml/jobs.batch/train-0", exact=True).wait_for()
    page.get_by_text("2 started, 0 starting").wait_for()
    page.get_by_role("link", name="gpu.example.com/node-1/gpu-1").click()
    page.get_by_role("heading", name="gpu.example.com/node-1/gpu-1", exact=True).wait_for()


def test_a_node_leads_to_its_reservations(tab, small):
    page = tab(small.url)
    go(page, "node/node-1")
    page.get_by_role("link", name="next-train").click()
    page.get_by_text("Available on node node-1").wait_for()


def test_ten_thousand_pods_need_only_the_rows_in_sight(tab, large):
    page = tab(large.url)
    for view in ("claims", "devices", "nodes", "workloads", "usage?by=node"):
        go(page, view)
        page.locator("tbody tr[data-key], .node").first.wait_for()
        assert page.evaluate("document.querySelectorAll('*').length") < DOM_NODES_MAX, view
    go(page, "claims")
    page.locator("tbody tr[data-key]").first.focus()
    page.keyboard.press("End")
    page.locator("tbody tr[aria-rowindex='1801']").wait_for()
    page.locator("#filter").fill("name:train-0-0")
    page.get_by_text("1 of 1,800").wait_for()


def test_after_a_cut_the_stream_continues_without_a_reload(tab, small):
    page = tab(small.url)
    tab.expected += ["ERR_", "Failed to load resource"]  # the cut itself
    go(page, "claims?q=cut-off")
    page.get_by_text("Nothing matches").wait_for()
    small.restart_server()
    small.change(changed(ResourceClaim, claim("cut-off", "ml", version=small.next_version())))
    page.get_by_text("1 of 168").wait_for()
    page.get_by_text("live since").wait_for()


def test_a_tab_without_the_key_is_told_so(tab, small):
    tab.expected += ["401"]
    context = tab(small.url).context
    page = context.new_page()
    page.goto(small.url.partition("#")[0])
    page.get_by_text("This tab has no key").wait_for()
    page.get_by_text("open the link that the command printed").wait_for()


def test_names_are_text_whatever_they_contain(tab, small):
    page = tab(small.url)
    name = "<img src=x onerror=document.title='taken'>"
    small.change(changed(ResourceClaim, claim(name, "evil", version=small.next_version())))
    go(page, "claims?q=namespace:evil")
    page.get_by_text(name).first.wait_for()
    assert page.title() == "Claims · dra-reserve"


def test_a_narrow_window_needs_no_sideways_scrolling(tab, small):
    page = tab(small.url, viewport={"width": 320, "height": 640})
    for view in ("overview", "claims", "nodes", "problems", "claim/ml/huge"):
        go(page, view)
        page.locator("h1").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view


def colocated():
    """Return a cluster with colocation: a busy node, one with a stale report, one without, one with a database."""
    fresh = rfc3339(SYSTEM.wall())
    nodes = [node("n1"), node("n2", batch=(1000, GIB)), node("n3", batch=None), node("n4")]
    reports = [
        metric("n1", pod_metric("web-0", "4", "12Gi"), updated=fresh),
        metric("n2", updated="2026-01-01T00:00:00Z"),
        metric("n4", pod_metric("db-0", "5", "18Gi"), updated=fresh),
    ]
    pods = [
        *busy()["pods"],
        batch_pod("night-0", on="n2", batch_cpu=900, batch_memory=GIB // 2),
        batch_pod("db-0", on="n4", cpu="12", memory="48Gi"),
    ]
    return colocated_snapshot(nodes=nodes, pods=pods, metrics=reports, config_map=config())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nodes_show_what_they_use_beside_what_their_pods_hold(tab, scheme):
    with served_page(colocated()) as served:
        page = tab(served.url, color_scheme=scheme)
        go(page, "nodes")
        card = page.locator(".node", has_text="n1")
        card.get_by_text("6 / 7 / 16").wait_for()
        assert card.locator(".meter").all_inner_texts() == ["cpu\n6 / 7 / 16", "memory\n20 / 18 / 64G", "batch\n3 / 8"]
        assert "old" in page.locator(".node", has_text="n2").inner_text()
        assert "no report" in page.locator(".node", has_text="n3").inner_text()
        assert violations(page) == []
        if scheme == "light":
            shot(page, "nodes-colocation")
        go(page, "node/n1")
        page.get_by_text("65 % may be used (cpuReclaimThresholdPercent: cluster)").wait_for()
        assert violations(page) == []


def test_a_round_leads_to_its_migrations(tab, small):
    page = tab(small.url)
    go(page, "rounds")
    page.get_by_text("LowNodeUtilization").first.click()
    page.get_by_role("heading", name="Migrations", exact=True).wait_for()
    page.get_by_text("1 of 3").wait_for()
    page.get_by_text("waits for approval").first.wait_for()
