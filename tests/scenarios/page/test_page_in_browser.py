"""The page in a cluster in a real Chromium: an administrator and a tenant sign in, look at every view, and sign out."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.page.browsers import EXECUTABLE
from tests.scenarios import installation, objects, steps
from tests.scenarios.accounts import RBAC
from tests.scenarios.claims import started
from tests.scenarios.objects import PodShape
from tests.scenarios.page.page_process import VIEWER, token_for
from tests.scenarios.resources import CLUSTER_ROLE_BINDINGS, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.scenarios.api import Api
    from tests.scenarios.page.page_process import PageProcess
    from tests.scenarios.page.tenants import Tenant

AXE: Final = Path(__file__).parents[2] / "page" / "vendor" / "axe.min.js"
AXE_RULES: Final = "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']})"
SCREENSHOTS: Final = os.environ.get("DRA_SCREENSHOTS")
"""Folder for the screenshots of the documentation; without it, none are written."""

USER: Final = "page-operator"
VIEWS: Final = ("overview", "workloads", "claims", "waiting", "usage", "problems")
"""Views of a tenant."""
VIEWS_OF_THE_CLUSTER: Final = (*VIEWS, "nodes", "devices", "reservations", "migrations")

Tenants = tuple["Tenant", "Tenant"]
Tab = Any
"""Playwright's page."""


@pytest.fixture
async def open_tab(page: PageProcess) -> AsyncIterator[Callable[..., Any]]:
    """Opens tabs with the sign-in form; an error in the console fails the test, except for refused requests."""
    if EXECUTABLE is None:
        pytest.skip("no Chromium on PATH; on Debian: apt-get install chromium")
    playwright_api = pytest.importorskip("playwright.async_api", reason="playwright is not installed: make venv")
    complaints: list[str] = []
    async with playwright_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=EXECUTABLE)

        @asynccontextmanager
        async def tab() -> AsyncIterator[Tab]:
            context = await browser.new_context(viewport={"width": 1280, "height": 800})
            found = await context.new_page()
            found.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
            found.on("pageerror", lambda error: complaints.append(str(error)))
            await found.goto(page.url)
            await found.get_by_role("heading", name="Sign in", exact=True).wait_for()
            yield found
            await context.close()

        yield tab
        await browser.close()
    assert [each for each in complaints if "Failed to load resource" not in each] == []


@pytest.fixture
async def operator(api: Api, admin: Path) -> AsyncIterator[str]:
    """A token of an account that lists everything."""
    metadata = {"metadata": {"name": USER}}
    await api.create({"apiVersion": "v1", "kind": "ServiceAccount", **metadata}, namespace=installation.NAMESPACE)
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        **metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": VIEWER},
        "subjects": [{"kind": "ServiceAccount", "name": USER, "namespace": installation.NAMESPACE}],
    }
    await api.create(binding)
    yield token_for(admin, USER, namespace=installation.NAMESPACE)
    await api.delete(CLUSTER_ROLE_BINDINGS, USER)
    await api.delete(SERVICE_ACCOUNTS, USER, namespace=installation.NAMESPACE)


async def sign_in(tab: Tab, token: str, *, namespace: str = "") -> None:
    await tab.get_by_label("Token").fill(token)
    await tab.get_by_label("Namespace").fill(namespace)
    await tab.get_by_role("button", name="Sign in").click()
    await tab.get_by_role("heading", name="Overview", exact=True).wait_for()


async def go(tab: Tab, view: str) -> None:
    await tab.evaluate("view => { location.hash = `#/${view}` }", view)


async def violations(tab: Tab) -> list[str]:
    """Return what axe finds; the page forbids foreign scripts, so axe comes in by the debugger."""
    await tab.evaluate(AXE.read_text(encoding="utf-8"))
    found = await tab.evaluate(AXE_RULES)
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"][:3]]


async def shot(tab: Tab, name: str) -> None:
    if SCREENSHOTS:
        await tab.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", animations="disabled")


async def test_an_administrator_signs_in_and_looks_at_every_view(
    open_tab: Callable[..., Any], operator: str, tenants: Tenants
) -> None:
    one, other = tenants
    async with open_tab() as tab:
        await shot(tab, "in-cluster-sign-in")
        await sign_in(tab, operator)
        await tab.get_by_text("2 nodes").first.wait_for()
        for view in VIEWS_OF_THE_CLUSTER:
            await go(tab, view)
            await tab.locator("h1").wait_for()
            assert await violations(tab) == [], view
        await go(tab, "claims")
        for each in (one, other):
            await tab.get_by_text(each.object_name("train"), exact=True).first.wait_for()
        await shot(tab, "in-cluster")


async def test_a_tenant_signs_in_to_its_namespace_and_sees_no_other(
    open_tab: Callable[..., Any], tenants: Tenants
) -> None:
    one, other = tenants
    async with open_tab() as tab:
        await sign_in(tab, one.token, namespace=one.name)
        for view in VIEWS:
            await go(tab, view)
            await tab.locator("h1").wait_for()
            assert await violations(tab) == [], view
            assert other.name not in await tab.content(), view
        await go(tab, "claims")
        await tab.get_by_text(one.object_name("train"), exact=True).first.wait_for()
        await shot(tab, "in-cluster-tenant")
        await go(tab, "devices")
        await tab.get_by_text("Not shown").wait_for()
        await go(tab, f"claim/{other.name}/{other.object_name('train')}")
        await tab.get_by_text(f"only namespace {one.name} is shown").wait_for()


async def test_a_pod_that_starts_appears_without_a_reload(open_tab: Callable[..., Any], tenants: Tenants) -> None:
    one, _ = tenants
    async with open_tab() as tab:
        await sign_in(tab, one.token, namespace=one.name)
        await go(tab, f"claims?q=name:{one.object_name('train')}")
        cell = tab.locator("tr[data-key] td:nth-child(6)")
        await cell.get_by_text("1", exact=True).wait_for()
        shape = PodShape(claim=one.object_name("train"))
        await one.namespace.create(objects.pod(one.object_name("joins"), shape))
        await steps.pod_is(one.namespace, one.object_name("joins"), started, saying="runs")
        await cell.get_by_text("2", exact=True).wait_for()


async def test_a_wrong_token_is_refused_and_not_kept(
    open_tab: Callable[..., Any], admin: Path, tenants: Tenants
) -> None:
    one, _ = tenants
    for_the_api_server = token_for(admin, "page-user", namespace=one.name, audience="")
    async with open_tab() as tab:
        await tab.get_by_label("Token").fill(for_the_api_server)
        await tab.get_by_role("button", name="Sign in").click()
        await tab.get_by_role("alert").get_by_text("the token is not valid for this page").wait_for()
        assert await tab.evaluate("sessionStorage.getItem('dra-reserve-key')") is None
