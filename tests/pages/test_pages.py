"""Pages are followed to the letter on the local plane, and print what they show."""

import re
import shutil

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.pages.following import alike
from tests.pages.reading import ROOT
from tests.pages.register import FOLLOWED
from tests.violations import for_each, for_each_case

INDEX = "examples/reservations/README.md"
EXAMPLES = [page for page in FOLLOWED if page.path.startswith("examples/") and page.path != INDEX and not page.long]


def name(page):
    return page.path.removesuffix("/README.md") + ("-whole" if page.long else "")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.long] * page.long) for page in FOLLOWED], ids=name
)
def test_a_page_can_be_followed_to_the_letter(page, follow):
    differing = follow(page)
    assert not differing, "\n".join(differing)


@for_each(EXAMPLES, name=name)
def test_each_manifest_of_an_example_is_in_its_page(page):
    folder = (ROOT / page.path).parent
    named = set(re.findall(r"[\w-]+\.yaml", (ROOT / page.path).read_text()))
    assert named == {path.name for path in folder.glob("*.yaml")}


STORIES = sorted(ROOT.glob("examples/reservations/*/README.md"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.parent.name)
def test_a_story_about_reservations_takes_its_pod_along(path):
    """The next story begins with that pod, which must be a new one then."""
    text = path.read_text()
    assert ("quick-start-pod.yaml" in text) == ("kubectl delete pod pod-demo-0" in text)


def deleted_kinds(text):
    """The kinds that a page deletes with ``kubectl delete -f``; all objects of a kind go with its CRD."""
    for line in re.findall(r"^kubectl delete .*$", text, re.MULTILINE):
        for path in re.findall(r"-f (\S+\.yaml)", line):
            for each in yaml.safe_load_all((ROOT / path).read_text()):
                if each["kind"] == "CustomResourceDefinition":
                    yield each["metadata"]["name"]


@for_each(sorted(ROOT.glob("examples/**/README.md")) + sorted(ROOT.glob("docs/**/*.md")))
def test_no_page_deletes_a_kind_that_others_use(path):
    assert [kind for kind in deleted_kinds(path.read_text()) if not kind.endswith(".example.com")] == []


@for_each_case(
    [
        pytest.param("NAME   AGE\na      1s\n", "NAME  AGE\na     2m5s\n", True, id="ages"),
        pytest.param("pod web-7d4b8c9f6d-x2x4z\n", "pod web-5c6d7f8b9d-b2c4d\n", True, id="made-up-names"),
        pytest.param("claim web-gpus-5bd7q\n", "claim web-gpus-52h9d\n", True, id="a-suffix-like-an-age"),
        pytest.param(
            "claim a-27a020ed-194e-4717-a0ea-e93b29472a7c-b-5bd7q\n",
            "claim a-27a020ed-194d-4d2d-8d1d-e93b29472a7c-b-x2x4z\n",
            True,
            id="a-uid-with-groups-like-ages",
        ),
        pytest.param("a\n…\nc\n", "a\nb\nb\nc\n", True, id="left-out"),
        pytest.param("in … s\n", "in 12 s\n", True, id="a-word-left-out"),
        pytest.param("a\nc\n", "a\nb\nc\n", False, id="a-line-too-few"),
        pytest.param("40 pods\n", "41 pods\n", False, id="another-number"),
    ]
)
def test_what_changes_from_run_to_run_is_not_compared(shown, printed, same):
    assert alike(shown, printed) is same


@given(
    st.from_regex(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-gpus-[bcdfghjklmnpqrstvwxz2456789]{5}", fullmatch=True)
)
def test_every_generated_name_is_taken_for_one(generated):
    assert alike("claim 27a020ed-194e-4717-a0ea-e93b29472a7c-gpus-5bd7q\n", f"claim {generated}\n")
