"""The built site answers the first questions: by links from the front page, and by its search."""

import os
import re
import shutil
import subprocess
from urllib.parse import urldefrag, urljoin

import pytest

from tests.pages.reading import ROOT
from tests.pages.site import Site

REPOSITORY = "https://git.example.com/someone/dra-reserve"
FRONT, QUESTIONS_PAGE = "index.html", "how-to/faq.html"
CLICKS, SHOWN = 3, 5
"""How far an answer may be away, and how many results of a search a reader looks at."""

WORDS = {
    "What problem does dra-reserve solve?": "problem",
    "Do I need it?": "comparison",
    "How do I try it on a laptop, without a cluster and without a GPU?": "laptop",
    "Does it work on GKE, EKS, AKS, OpenShift or k3s?": "GKE",
    "Which versions of Kubernetes does it support?": "Kubernetes versions",
    "Is it ready for production?": "guarantees",
    "Which license does it have?": "license",
    "How do I install it? Do I need Helm?": "without Helm",
    "How do I install it without internet (air-gapped, offline)?": "air-gapped",
    "How do I know that it works?": "verify installation",
    "Which rights (RBAC permissions) does it need? Does it read Secrets?": "permissions secrets",
    "Does it change the scheduler, the kubelets or the API server?": "replace",
    "Which mode do I choose?": "alongside",
    "How much CPU, memory and API load does it cost?": "memory sizing",
    "Which GPUs and drivers does it work with? Do I keep NVIDIA's driver?": "nvidia driver",
    "How do I reserve a claim for my Job?": "reserve claim for workload",
    "Which workload holds a GPU? Who uses it?": "who holds gpu",
    "Can two teams (namespaces) share a claim, or a GPU?": "share claim between namespaces",
    "Does it work with Kueue, Volcano, JobSet, KubeRay, cluster autoscaler and Karpenter?": "Karpenter",
    "When are the devices free again?": "released",
    "Why is my pod Pending?": "Pending",
    "How fast do pods start? (latency)": "latency",
    "What happens while the controller is down (outage)?": "outage",
    "How do I upgrade, Kubernetes or dra-reserve?": "upgrade",
    "How do I watch it?": "metrics",
    "Does the page have a login (password, SSO)?": "login",
    "What can an attacker do, or another tenant (multitenancy)?": "multi-tenant",
    "How do I uninstall (remove) it?": "remove uninstall",
    "What if Kubernetes solves this itself?": "PodGroups",
}
"""The first questions, as the page has them, and what a reader types into the search instead of reading it."""

PAGES = {
    "GKE": "how-to/platforms.html",
    "OpenShift": "how-to/platforms.html",
    "RBAC": "reference/rights.html",
    "uninstall": "how-to/uninstall.html",
    "roll back": "how-to/upgrade.html",
    "controller down": "how-to/troubleshooting.html",
    "latency": "how-to/troubleshooting.html",
    "no internet": "how-to/install.html",
    "login": "how-to/page.html",
    "permissions": "reference/rights.html",
    "who holds gpu": "how-to/kubectl-dra.html",
    "threat model": "explanation/security.html",
    "memory": "explanation/sizing.html",
    "slicing": "explanation/comparison.html",
    "when-suspended": "reference/annotations.html",
    "job-gated.yaml": "examples/shared-claim/index.html",
}
"""Other words, and the page that must be among the first results."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        ["make", "docs", f"ARGS=--site-dir {folder}"],  # noqa: S607
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
        | {"DRA_RESERVE_REPOSITORY": REPOSITORY},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout
    return Site(folder)


@pytest.fixture(scope="module")
def reached(site):
    """The pages that a few clicks in the text of pages reach from the front page."""
    return site.clicks(FRONT, most=CLICKS)


def answers(site):
    """Yield each question with the links of its answer."""
    for section in re.split(r"<h3 ", site.served(QUESTIONS_PAGE).partition("</article>")[0])[1:]:
        question = re.sub(r"<[^>]*>|&para;|¶", "", section.partition(">")[2].partition("</h3>")[0]).strip()
        body = section.partition("</h3>")[2].partition("<h2 ")[0]
        yield question, re.findall(r'href="([^":]*)"', body)


def answer_pages(site, question):
    """Return the pages to which the answer of a question leads; without any, the answer is complete where it stands."""
    links = [urldefrag(urljoin(QUESTIONS_PAGE, link)).url for link in dict(answers(site))[question]]
    return {page for page in links if page.endswith(".html")} or {QUESTIONS_PAGE}


pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on PATH")]


def test_the_page_has_the_questions_that_are_searched_here(site):
    assert [question for question, _ in answers(site)] == list(WORDS)
    assert len(WORDS) >= 20


@pytest.mark.parametrize("question", WORDS)
def test_the_front_page_leads_to_each_answer(site, reached, question):
    pages = answer_pages(site, question)
    assert pages
    assert [page for page in pages if page not in reached] == []


@pytest.mark.parametrize(("question", "words"), WORDS.items(), ids=WORDS.values())
def test_the_search_finds_each_answer(site, question, words):
    pages = answer_pages(site, question)
    assert pages & set(site.search(words)[:SHOWN]), site.search(words)[:SHOWN]


@pytest.mark.parametrize(("words", "page"), PAGES.items(), ids=PAGES)
def test_the_search_finds(site, words, page):
    assert page in site.search(words)[:SHOWN], site.search(words)[:SHOWN]


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on PATH, which runs the browser's search")
def test_the_search_of_the_browser_finds_the_same(site):
    shown = site.browser_search([*WORDS.values(), *PAGES])
    wanted = {words: answer_pages(site, question) for question, words in WORDS.items()}
    wanted |= {words: {page} for words, page in PAGES.items()}
    assert {
        words: shown[words][:SHOWN] for words, pages in wanted.items() if not pages & set(shown[words][:SHOWN])
    } == {}


def test_no_word_that_no_page_has_is_found(site):
    assert site.search("quetzalcoatl") == []


def test_examples_are_pages_of_the_menu_with_their_files(site):
    menu = (ROOT / "mkdocs.yml").read_text()
    for path in sorted((ROOT / "examples").rglob("README.md")):
        name = path.relative_to(ROOT)
        assert f": {name}\n" in menu, name
        shown = site.served(f"{name.parent}/index.html")
        assert [each.name for each in path.parent.glob("*.yaml") if f">{each.name}<" not in shown] == []


def test_pages_have_edit_links_and_the_version(site):
    for page, source in (
        ("how-to/install.html", "docs/how-to/install.md"),
        ("examples/verify/index.html", "examples/verify/README.md"),
    ):
        assert f'href="{REPOSITORY}/edit/main/{source}"' in site.served(page)
        assert re.search(r"dra-reserve \d+\.\d+\.\d+", site.served(page))


def test_design_pages_are_apart_from_those_of_users():
    tabs = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].split("\n- ")
    apart = {tab.removeprefix("- ").partition(":")[0]: set(re.findall(r"\bdesign/[\w/.-]+", tab)) for tab in tabs}
    assert {name for name, pages in apart.items() if pages} == {"Design", "Explanation"}
    assert apart["Explanation"] == {"design/when-things-fail.md"}  # what users must know, too
