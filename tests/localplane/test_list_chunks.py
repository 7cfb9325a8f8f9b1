"""Lists: pages that show one moment, revisions, selections."""

import base64
import json

import pytest

from tests.localplane.api_client import MAPS, ApiClient, names

VIRTUAL_TIME = True


@pytest.fixture
async def api():
    api = ApiClient()
    for name in "abcde":
        await api.map(name, labels={"odd": str("ace".find(name) >= 0).lower()})
    return api


async def pages(api, **query):
    found, token = [], ""
    while True:
        page = await api.ok("GET", MAPS, limit="2", **({"continue": token} if token else {}), **query)
        found.append(names(page))
        token = page["metadata"].get("continue", "")
        if not token:
            return found


async def test_pages_follow_each_other_and_show_one_moment(api):
    first = await api.ok("GET", MAPS, limit="2")
    await api.map("bb")
    await api.ok("DELETE", f"{MAPS}/d")
    rest = await api.ok("GET", MAPS, **{"continue": first["metadata"]["continue"]})

    assert (names(first), names(rest)) == (["a", "b"], ["c", "d", "e"])
    assert first["metadata"]["remainingItemCount"] == 3
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_selected_page_does_not_say_how_many_are_left(api):
    page = await api.ok("GET", MAPS, limit="1", labelSelector="odd=true")

    assert names(page) == ["a"]
    assert "remainingItemCount" not in page["metadata"]
    assert await pages(api, labelSelector="odd=true") == [["a", "c"], ["e"]]


async def test_pages_go_through_all_namespaces(api):
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    await api.map("a", path="/api/v1/namespaces/other/configmaps")
    first = await api.ok("GET", "/api/v1/configmaps", limit="4")
    rest = await api.ok("GET", "/api/v1/configmaps", **{"continue": first["metadata"]["continue"]})

    assert [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in rest["items"]] == [
        ("default", "e"),
        ("other", "a"),
    ]


async def test_a_token_whose_moment_is_forgotten_gets_410_and_one_that_goes_on_in_the_present(api):
    api.server.store._event_capacity = 2
    first = await api.ok("GET", MAPS, limit="2")
    for name in "fgh":
        await api.map(name)
    status, refusal = await api.send("GET", MAPS, **{"continue": first["metadata"]["continue"]})

    assert (status, refusal["reason"]) == (410, "Expired")
    rest = await api.ok("GET", MAPS, **{"continue": refusal["metadata"]["continue"]})
    assert names(rest) == ["c", "d", "e", "f", "g", "h"]


def token(**fields):
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"continue": "?"}, 400, "invalid continue token: continue key is not valid: "),
        (
            {"continue": token(v="v0", rv=1, start="a")},
            400,
            "invalid continue token: continue key is not valid: server does not recognize this encoded version",
        ),
        (
            {"continue": token(v="meta.k8s.io/v1", rv=0, start="a")},
            400,
            "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion",
        ),
        (
            {"continue": token(v="meta.k8s.io/v1", rv=2, start="a"), "resourceVersion": "2"},
            400,
            "specifying resource version is not allowed when using continue",
        ),
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (
            {"resourceVersionMatch": "Exact"},
            422,
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
                "resourceVersionMatch is forbidden unless resourceVersion is provided"
            ),
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            422,
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
                'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            ),
        ),
        (
            {"sendInitialEvents": "true"},
            422,
            (
                'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
                "sendInitialEvents is forbidden for list"
            ),
        ),
        ({"resourceVersion": "99999999"}, 504, "Timeout: Too large resource version: 99999999, current: "),
    ],
)
async def test_lists_that_make_no_sense_are_refused(api, query, code, message):
    status, text = await api.refused("GET", MAPS, **query)

    assert status == code
    assert text.startswith(message)


async def test_a_list_shows_the_revision_that_is_asked_for(api):
    then = api.server.store.revision
    await api.ok("DELETE", f"{MAPS}/a")

    past = await api.ok("GET", MAPS, resourceVersion=str(then), resourceVersionMatch="Exact")
    assert (names(past), past["metadata"]["resourceVersion"]) == (["a", "b", "c", "d", "e"], str(then))
    for newer in ({"resourceVersion": str(then)}, {"resourceVersion": "0"}, {}):
        assert names(await api.ok("GET", MAPS, **newer)) == ["b", "c", "d", "e"]
    assert names(await api.ok("GET", MAPS, resourceVersion=str(then), limit="9")) == ["a", "b", "c", "d", "e"]


async def test_an_exact_revision_that_is_forgotten_gets_410(api):
    api.server.store._event_capacity = 1
    for name in "fgh":
        await api.map(name)

    assert await api.refused("GET", MAPS, resourceVersion="2", resourceVersionMatch="Exact") == (
        410,
        "The resourceVersion for the provided list is too old.",
    )


async def test_deleting_a_collection_deletes_what_is_selected_and_shows_it(api):
    listed = await api.ok("DELETE", MAPS, labelSelector="odd=true")

    assert (names(listed), listed["kind"]) == (["a", "c", "e"], "ConfigMapList")
    assert names(await api.ok("GET", MAPS)) == ["b", "d"]


async def test_an_event_is_selected_by_the_names_of_either_group_in_turn(api):
    pod = {"kind": "Pod", "namespace": "default", "name": "p"}
    await api.ok("POST", "/api/v1/namespaces/default/events", {"metadata": {"name": "e"}, "involvedObject": pod})
    for _ in range(2):
        for group, field in (("api/v1", "involvedObject"), ("apis/events.k8s.io/v1", "regarding")):
            listed = await api.ok("GET", f"/{group}/namespaces/default/events", fieldSelector=f"{field}.name=p")
            assert names(listed) == ["e"]
