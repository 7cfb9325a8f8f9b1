"""The page of a cluster in a real Chromium: users sign in, and see what their rights cover."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from bench.page_cluster import claim
from tests.dra.cli.page.team_cluster import running, two_tenants
from tests.page.browsers import EXECUTABLE, sync_playwright
from tests.page.test_page import go, shot, violations

pytestmark = pytest.mark.slow


class TeamPage:
    """The application and its cluster, in a thread of this process."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.url = ""
        self.server = None
        self._started, self._stopping = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: self.loop.run_until_complete(self._serve()))

    async def _serve(self):
        self.server = await two_tenants()
        async with running(self.server) as browser:
            self.url = browser.application.address
            self._started.set()
            await self._stopping.wait()

    def run(self, work):
        """Run a coroutine where the server runs."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=60)

    @contextmanager
    def served(self):
        self._thread.start()
        assert self._started.wait(60)
        yield self
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(60)
        self.loop.close()


@pytest.fixture(scope="module")
def team():
    with TeamPage().served() as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium, team):
    """Yield a tab with the form; an error in the console fails the test, except for refused requests."""
    complaints = []
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(team.url)
    page.get_by_role("heading", name="Sign in", exact=True).wait_for()
    yield page
    context.close()
    assert [each for each in complaints if "Failed to load resource" not in each] == []


def sign_in(page, token, namespace=""):
    page.get_by_label("Token").fill(token)
    page.get_by_label("Namespace").fill(namespace)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_pleases_axe(tab, scheme):
    tab.emulate_media(color_scheme=scheme)
    assert violations(tab) == []
    if scheme == "light":
        shot(tab, "sign-in")


@pytest.mark.parametrize(
    ("token", "namespace", "text"),
    [
        pytest.param("wrong-token", "", "the token is not valid for this page", id="wrong-token"),
        pytest.param("two words", "", "this is not a token", id="no-token-at-all"),
        pytest.param("ml-token", "", "sign in with a namespace", id="no-namespace"),
        pytest.param("ml-token", "other", "may not list and watch", id="another-namespace"),
    ],
)
def test_the_form_says_why_a_user_is_refused(tab, token, namespace, text):
    sign_in(tab, token, namespace)
    tab.get_by_role("alert").get_by_text(text).wait_for()
    assert tab.evaluate("sessionStorage.getItem('dra-reserve-key')") is None


def test_an_operator_sees_all_namespaces(tab):
    sign_in(tab, "operator-token")
    tab.get_by_text("1 node, 3 pods").wait_for()
    go(tab, "devices")
    tab.get_by_text("other/secret", exact=True).wait_for()
    go(tab, "nodes")
    tab.get_by_text("2 used, 2 free").wait_for()
    assert violations(tab) == []


def test_a_tenant_sees_one_namespace_and_the_missing_permissions(tab):
    sign_in(tab, "ml-token", "ml")
    tab.get_by_role("heading", name="Overview", exact=True).wait_for()
    tab.get_by_text("no permission to list and watch nodes").or_(
        tab.get_by_text("resourceclaims.resource.k8s.io of other namespaces")
    ).first.wait_for()
    assert violations(tab) == []
    shot(tab, "tenant")
    assert tab.get_by_role("navigation").get_by_text("Devices").count() == 0
    go(tab, "claims")
    tab.get_by_text("InUse").first.wait_for()
    go(tab, "usage")
    tab.get_by_text("workload", exact=True).wait_for()
    assert tab.get_by_role("button", name="node", exact=True).count() == 0
    go(tab, "devices")
    tab.get_by_text("Not shown").wait_for()
    tab.get_by_text("no permission to list and watch resourceclaims.resource.k8s.io in all namespaces").wait_for()
    go(tab, "claim/other/secret")
    tab.get_by_text("only namespace ml is shown").wait_for()
    assert "secret-" not in tab.content()


def test_a_tenant_follows_changes_after_a_reload_without_signing_in_again(tab, team):
    sign_in(tab, "ml-token", "ml")
    go(tab, "claims")
    tab.get_by_text("InUse").first.wait_for()
    tab.reload()
    tab.get_by_text("InUse").first.wait_for()
    team.run(team.server.create("ResourceClaim", claim("fresh", "ml"), "ml"))
    tab.get_by_text("fresh", exact=True).wait_for()
    address = tab.evaluate(
        "location.href + performance.getEntriesByType('resource').map((each) => each.name).join(' ')"
    )
    assert "token" not in address.replace("/assets/", "")


def test_who_signs_out_must_sign_in_again(tab):
    sign_in(tab, "ml-token", "ml")
    tab.get_by_text("namespace ml").first.wait_for()
    tab.get_by_role("button", name="Sign out").click()
    tab.get_by_role("heading", name="Sign in", exact=True).wait_for()
    assert tab.evaluate("sessionStorage.getItem('dra-reserve-key')") is None


def test_a_token_that_expires_leads_back_to_the_form(tab, team):
    team.server.users["short-token"] = ("short-user", {("", "resourceclaims"), ("", "pods")})
    sign_in(tab, "short-token")
    tab.get_by_role("heading", name="Overview", exact=True).wait_for()
    del team.server.users["short-token"]
    tab.evaluate("sessionStorage.setItem('dra-reserve-key', 'gone-token')")
    tab.reload()
    tab.get_by_role("alert").get_by_text("the token is not valid for this page, or has expired").wait_for()


def test_a_refusal_that_comes_before_the_first_frame_is_shown(tab):
    tab.evaluate("sessionStorage.setItem('dra-reserve-key', 'gone-token')")
    tab.add_init_script("requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 500)")
    tab.reload()
    tab.get_by_role("alert").get_by_text("the token is not valid for this page").wait_for(timeout=10_000)
