"""The page in a cluster, on a real kube-apiserver and etcd: first view, updates, memory, API requests.

`dra-reserve page` runs with the account of the component `page`, and a real Chromium signs in with a token. Nothing
else runs: nodes, claims and pods are written as scheduler and kubelets would leave them. An update is the time from
the request that creates or deletes a pod until the browser has painted the row of the pod's claim.

    python -m bench.page_kubernetes [--nodes N] [--pods N] [--updates N] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import yaml
from playwright.async_api import async_playwright

from bench import readme
from bench.page_cluster import NAMESPACES
from bench.page_objects import Slot, pod, slots, write
from bench.process_memory import memory
from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import kubectl
from tests.cluster.options import Component, Options
from tests.scenarios import api as kubernetes
from tests.scenarios import installation
from tests.scenarios.api import ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.metrics import total
from tests.scenarios.page.page_client import signed_in
from tests.scenarios.page.page_process import ACCOUNT, VIEWER, PageProcess, token_for
from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.api import Api

MARK: Final = "page-kubernetes"
CHROMIUM: Final = shutil.which("chromium") or "/usr/bin/chromium"
REST_SECONDS: Final = 30.0
READY_WITHIN: Final = 300.0
PATIENCE_MS: Final = 300_000
"""Milliseconds after which the browser gives up, on a machine with other work."""

REQUESTS: Final = "dra_reserve_api_requests_total"
VIEWS: Final = {"claims": "tr[data-key]", "nodes": ".node", "devices": "tr[data-key]", "workloads": ".branch"}
"""View → an element that the view has as soon as its rows are painted."""
PAINTED: Final = """count => { window.painted = new Promise(done => {
    const look = () => document.querySelector("tr[data-key] td:nth-child(6)")?.textContent.trim() == count
        ? done() : requestAnimationFrame(look); look(); }) }"""
"""Sets a promise that is fulfilled once the first row shows a number of pods."""
PARTS: Final = ("deploy/page", "crds")


@dataclass
class Figures:
    """What was measured."""

    nodes: int
    pods: int
    claims: int
    updates: int
    kubernetes: str = ""
    written_s: float = 0.0
    ready_s: float = 0.0
    first_user_ms: float = 0.0
    first_view_ms: float = 0.0
    views_ms: dict[str, float] = field(default_factory=dict)
    updates_ms: list[float] = field(default_factory=list)
    memory_mib: float = 0.0
    memory_peak_mib: float = 0.0
    tenant_ms: float = 0.0
    memory_tenant_mib: float = 0.0
    requests_start: float = 0.0
    requests_rest: float = 0.0
    processor_start_s: float = 0.0
    processor_rest: float = 0.0
    etcd_mib: float = 0.0

    def table(self) -> str:
        """Return the figures in Markdown."""
        rows = [
            ("from the start until ready: all lists are read and all rows computed, s", f"{self.ready_s:.1f}"),
            ("first view of the first user, from the token to the painted overview, ms", f"{self.first_user_ms:.0f}"),
            ("first view of the second user, ms", f"{self.first_view_ms:.0f}"),
            *((f"then {view}, ms", f"{ms:.0f}") for view, ms in self.views_ms.items()),
            ("update until painted, median, ms", f"{statistics.median(self.updates_ms):.0f}"),
            ("nine of ten updates within, ms", f"{sorted(self.updates_ms)[len(self.updates_ms) * 9 // 10]:.0f}"),
            ("update until painted, maximum, ms", f"{max(self.updates_ms):.0f}"),
            (
                "a tenant of one of five namespaces: from the token until its rows are there, ms",
                f"{self.tenant_ms:.0f}",
            ),
            ("memory of the server, MiB", f"{self.memory_mib:.0f}"),
            ("its peak since the start, MiB", f"{self.memory_peak_mib:.0f}"),
            ("memory with a tenant of one namespace signed in besides, MiB", f"{self.memory_tenant_mib:.0f}"),
            ("CPU of the server until ready, s", f"{self.processor_start_s:.1f}"),
            ("CPU of the server with one open tab and no changes, % of a core", f"{100 * self.processor_rest:.1f}"),
            ("API requests until ready", f"{self.requests_start:.0f}"),
            ("API requests a second with one open tab and no changes", f"{self.requests_rest:.2f}"),
        ]
        head = (
            f"{self.nodes:,} nodes, {self.pods:,} pods, {self.claims:,} claims on kube-apiserver {self.kubernetes}; "
            f"one run, 2 cores, {len(self.updates_ms)} updates. The objects took {self.written_s:.0f} s to write and "
            f"{self.etcd_mib:.0f} MiB in etcd."
        )
        return "\n".join([head, "", "| | |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows)])


def install(admin: Path) -> None:
    """Create the definitions of Koordinator's kinds, and the account of the page with its permissions."""
    kubectl("create", "namespace", installation.NAMESPACE, kubeconfig=admin)
    for folder in PARTS:
        objects = yaml.safe_load_all(kubectl("kustomize", str(installation.DEPLOY.parent / folder), kubeconfig=admin))
        wanted = [obj for obj in objects if obj["kind"] != "Deployment"]
        kubectl("apply", "--filename=-", kubeconfig=admin, stdin=yaml.safe_dump_all(wanted))


def user(admin: Path, name: str, *, namespace: str, everywhere: bool) -> str:
    """Create an account that may look at the page, in its namespace or everywhere; return a token for the page."""
    binding = "clusterrolebinding" if everywhere else "rolebinding"
    kubectl("create", "serviceaccount", name, f"--namespace={namespace}", kubeconfig=admin)
    role = (f"--clusterrole={VIEWER}", f"--serviceaccount={namespace}:{name}")
    where = () if everywhere else (f"--namespace={namespace}",)
    kubectl("create", binding, name, *role, *where, kubeconfig=admin)
    return token_for(admin, name, namespace=namespace)


async def is_known(api: Api, last: Slot) -> bool:
    """Report whether the API server's cache has the objects that were written last."""
    wanted = ((CLAIMS, last.claim), (PODS, f"{last.claim}-{last.pods - 1}"))
    for resource, name in wanted:
        try:
            path = resource.path(namespace=last.namespace, name=name)
            await api.request("GET", path, query={"resourceVersion": "0"})  # from the cache, however old
        except ApiError:
            return False
    return True


async def measure_browser(figures: Figures, api: Api, page: PageProcess, token: str, slot: Slot) -> None:
    """Sign in with a real Chromium, look at the largest views, and measure updates of one claim's row."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM)
        tab = await (await browser.new_context()).new_page()
        tab.set_default_timeout(PATIENCE_MS)
        await tab.goto(page.url)
        began = await sign_in(tab, token)
        await tab.locator(".card").first.wait_for()
        figures.first_user_ms = 1000 * (time.perf_counter() - began)
        await tab.context.close()
        tab = await (await browser.new_context()).new_page()
        tab.set_default_timeout(PATIENCE_MS)
        await tab.goto(page.url)
        began = await sign_in(tab, token)
        await tab.locator(".card").first.wait_for()
        figures.first_view_ms = 1000 * (time.perf_counter() - began)
        for view, wanted in VIEWS.items():
            began = time.perf_counter()
            await tab.evaluate(f"location.hash = '#/{view}'")
            await tab.locator(wanted).first.wait_for()
            figures.views_ms[view] = 1000 * (time.perf_counter() - began)
        await tab.evaluate(f"location.hash = '#/claims?q=name:{slot.claim}'")
        cell = tab.locator(f"tr[data-key='{slot.namespace}/{slot.claim}'] td:nth-child(6)")
        await cell.wait_for()
        count, another = int(await cell.inner_text()), pod(slot, "another")
        for number in range(figures.updates):
            is_created = number % 2 == 0  # and then deleted: the claim of a Job does not get more pods without end
            await tab.evaluate(PAINTED, count + is_created)
            began = time.perf_counter()
            if is_created:
                await api.create(another, namespace=slot.namespace)
            else:
                await api.delete(PODS, another["metadata"]["name"], namespace=slot.namespace, grace_seconds=0)
            await tab.evaluate("window.painted")
            figures.updates_ms.append(1000 * (time.perf_counter() - began))
        await measure_rest(figures, page)
        await browser.close()


async def sign_in(tab: Any, token: str) -> float:  # noqa: ANN401 - Playwright's page
    """Sign in; return the time at which the token was sent."""
    await tab.get_by_label("Token").fill(token)
    began = time.perf_counter()
    await tab.get_by_role("button", name="Sign in").click()
    return began


async def measure_rest(figures: Figures, page: PageProcess) -> None:
    """Measure requests and CPU while nothing changes and a tab is open."""
    requests, seconds = total(await page.metrics(), REQUESTS), page.process.processor_seconds
    await asyncio.sleep(REST_SECONDS)
    figures.requests_rest = (total(await page.metrics(), REQUESTS) - requests) / REST_SECONDS
    figures.processor_rest = (page.process.processor_seconds - seconds) / REST_SECONDS


async def measure(*, nodes: int, pods: int, updates: int) -> Figures:
    """Write the cluster and measure the page."""
    places = slots(nodes=nodes, pods=pods)
    figures = Figures(nodes=nodes, pods=pods, claims=len(places), updates=updates)
    with Cluster(Options(without=frozenset(Component))) as cluster:
        admin, figures.kubernetes = cluster.admin_kubeconfig, cluster.kubernetes
        cluster.controller_manager.stop()  # it would end pods on nodes that no kubelet reports for
        async with kubernetes.connect(admin) as api:
            began = time.monotonic()
            await write(api, places, nodes=nodes, etcd_port=cluster.ports.etcd)
            await eventually(partial(is_known, api, places[-1]), within=READY_WITHIN, saying="all is cached")
            figures.written_s = time.monotonic() - began
            print(f"written in {figures.written_s:.0f} s", flush=True)
            install(admin)
            token = user(admin, "page-user", namespace=installation.NAMESPACE, everywhere=True)
            credentials = kubeconfig.for_service_account(
                cluster.folder.path / f"{ACCOUNT}.kubeconfig",
                admin=admin,
                namespace=installation.NAMESPACE,
                name=ACCOUNT,
            )
            page = PageProcess(cluster.folder, credentials)
            began = time.monotonic()
            page.process.start(within=READY_WITHIN)
            figures.ready_s = time.monotonic() - began
            figures.processor_start_s = page.process.processor_seconds
            figures.requests_start = total(await page.metrics(), REQUESTS)
            print(f"ready in {figures.ready_s:.0f} s", flush=True)
            await measure_browser(figures, api, page, token, places[0])
            figures.memory_mib, figures.memory_peak_mib = memory(page.process.pid)
            tenant = user(admin, "page-tenant", namespace=NAMESPACES[0], everywhere=False)
            began = time.perf_counter()
            async with signed_in(page, tenant, namespace=NAMESPACES[0]) as client:
                await client.rows("claims")
                figures.tenant_ms = 1000 * (time.perf_counter() - began)
            figures.memory_tenant_mib, _ = memory(page.process.pid)
        figures.etcd_mib = (
            sum(file.stat().st_size for file in (cluster.folder.path / "etcd").rglob("db") if file.is_file()) / 2**20
        )
    return figures


def main() -> None:
    """Measure and print, or write the table into README.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    figures = asyncio.run(measure(nodes=chosen.nodes, pods=chosen.pods, updates=chosen.updates))
    text = figures.table()
    print(text, "", "updates, ms:", *(f"{milliseconds:.0f}" for milliseconds in figures.updates_ms), sep="\n")
    if chosen.write:
        readme.write(text, mark=MARK)


if __name__ == "__main__":
    main()
