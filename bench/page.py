"""The page with 5,000 nodes, 10,000 devices, 9,000 claims and 50,000 pods: first view, updates, filter, memory.

Server and page run in this process (the cluster is synthetic and no API server takes part); the browser is a real
Chromium. An update is the time from a changed pod, as a watch delivers it, until the browser has painted the row.

    python -m bench.page [--nodes N] [--pods N] [--updates N] [--write]
"""

import argparse
import resource
import shutil
import statistics
from time import perf_counter
from typing import Any, Final

import msgspec
from playwright.sync_api import sync_playwright

from bench import readme
from bench.page_cluster import ServedPage, cluster, pod, served_page
from dra.model.scheduling import SchedulerPod

MARK: Final = "page"
CHROMIUM: Final = shutil.which("chromium") or "/usr/bin/chromium"


def _memory() -> float:
    """Return the resident memory of this process in MiB."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a bench
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def _updates(tab: Any, page: ServedPage, number: int) -> list[float]:  # noqa: ANN401 - Playwright's page
    """Return the milliseconds of updates: a pod joins a claim, and the claim's row shows the new number of pods."""
    times = []
    tab.evaluate("location.hash = '#/claims?q=name:train-0-0'")
    cell = tab.locator("tr[data-key='vision/train-0-1'] td:nth-child(6), tr[data-key] td:nth-child(6)").first
    cell.wait_for()
    key = tab.locator("tr[data-key]").first.get_attribute("data-key")
    namespace, name = key.split("/")
    for index in range(number):
        count = int(cell.inner_text())
        tab.evaluate(
            """count => { window.painted = new Promise(done => {
                const look = () => document.querySelector("tr[data-key] td:nth-child(6)")?.textContent.trim() == count
                    ? done(performance.now()) : requestAnimationFrame(look); look(); }) }""",
            count + 1,
        )
        content = pod(f"more-{index}", namespace, name, on="node-1", version=page.next_version())
        began = perf_counter()
        page.change(msgspec.convert(content, SchedulerPod))
        tab.evaluate("window.painted")
        times.append(1000 * (perf_counter() - began))
    return times


def measure(*, nodes: int, pods: int, updates: int) -> str:
    """Return the table of figures."""
    snapshot = cluster(nodes=nodes, pods=pods)
    empty, began = _memory(), perf_counter()
    with served_page(snapshot) as page, sync_playwright() as playwright:
        ready, full = perf_counter() - began, _memory()
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        rows = {}
        for view, wanted in {
            "": ".card",
            "claims": "tr[data-key]",
            "nodes": ".node",
            "devices": "tr[data-key]",
        }.items():
            tab = browser.new_context().new_page()
            tab.goto(page.url)
            tab.locator(".card").first.wait_for()
            began = perf_counter()
            tab.evaluate(f"location.hash = '#/{view}'") if view else tab.reload()
            tab.locator(wanted).first.wait_for()
            rows[view or "overview"] = 1000 * (perf_counter() - began)
            tab.context.close()
        tab = browser.new_context().new_page()
        began = perf_counter()
        tab.goto(page.url)
        tab.locator(".card").first.wait_for()
        first = 1000 * (perf_counter() - began)
        took = _updates(tab, page, updates)
        heap = tab.evaluate("performance.memory.usedJSHeapSize") / 2**20
        dom = tab.evaluate("document.querySelectorAll('*').length")
        browser.close()
    lines = [
        f"{nodes:,} nodes, {pods:,} pods, {len(snapshot.claims):,} claims; one run, 2 cores, {updates} updates.",
        "",
        "| | |",
        "|---|---:|",
        f"| all rows computed after the first lists, s | {ready:.1f} |",
        f"| first view of a new tab, ms | {first:.0f} |",
        *(f"| then {view}, ms | {ms:.0f} |" for view, ms in rows.items()),
        f"| update until painted, median, ms | {statistics.median(took):.0f} |",
        f"| update until painted, maximum, ms | {max(took):.0f} |",
        f"| memory of the server above the objects, MiB | {full - empty:.0f} |",
        f"| memory of the server with all objects, MiB | {full:.0f} |",
        f"| heap of the browser, MiB | {heap:.0f} |",
        f"| elements of the DOM | {dom} |",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print, or write the table into README.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    text = measure(nodes=chosen.nodes, pods=chosen.pods, updates=chosen.updates)
    print(text)
    if chosen.write:
        readme.write(text, mark=MARK)


if __name__ == "__main__":
    main()
