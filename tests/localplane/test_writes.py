"""Writes: concurrency, dry runs, names, deletion in all its ways, media types."""

import pytest

from dra.kube.transport import JSON
from tests.localplane.api_client import MAPS, ApiClient, names

VIRTUAL_TIME = True

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
async def api():
    return ApiClient()


async def test_a_dry_run_changes_nothing(api):
    before = api.server.store.revision
    made = await api.ok("POST", MAPS, {"metadata": {"name": "a"}}, dryRun="All")
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert api.server.store.revision == before

    await api.map("a")
    patched = await api.patch(f"{MAPS}/a", {"data": {"x": "y"}}, dryRun="All")
    assert patched["data"] == {"x": "y"}
    await api.ok("DELETE", f"{MAPS}/a", dryRun="All")
    assert "data" not in await api.ok("GET", f"{MAPS}/a")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"dryRun": "x"}, 'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["x"]'),
        ({"fieldManager": "x" * 129}, 'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long'),
    ],
)
async def test_options_that_make_no_sense_are_refused(api, query, text):
    code, message = await api.refused("POST", MAPS, {"metadata": {"name": "a"}}, **query)
    assert code == 422
    assert message.startswith(text)


async def test_a_made_up_name_is_not_one_that_is_taken(api):
    made = [(await api.ok("POST", MAPS, {"metadata": {"generateName": "m" * 80}}))["metadata"] for _ in range(3)]

    assert len({meta["name"] for meta in made}) == 3
    assert {len(meta["name"]) for meta in made} == {63}


async def test_an_object_is_made_where_its_path_says(api):
    assert await api.refused("POST", MAPS, {"metadata": {"name": "a", "namespace": "other"}}) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )
    assert (await api.refused("POST", "/api/v1/configmaps", {"metadata": {"name": "a"}}))[0] == 405
    assert await api.refused("POST", MAPS, {"metadata": {"name": "a", "resourceVersion": "5"}}) == (
        400,
        "resourceVersion should not be set on objects to be created",
    )


async def test_a_put_names_the_object_of_its_path(api):
    await api.map("a")
    assert await api.refused("PUT", f"{MAPS}/a", {"metadata": {"name": "b"}}) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )
    assert (await api.refused("PUT", f"{MAPS}/a", {"metadata": {}}))[0] == 400
    assert (await api.ok("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"x": "y"}}))["data"] == {"x": "y"}


async def test_who_decided_on_another_object_of_the_name_is_told(api):
    await api.map("a")
    code, text = await api.refused("PUT", f"{MAPS}/a", {"metadata": {"name": "a", "uid": "other"}})
    assert code == 409
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in text


async def test_nothing_is_made_in_a_namespace_that_ends(api):
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    ending = await api.ok("DELETE", "/api/v1/namespaces/n")
    assert ending["status"]["phase"] == "Terminating"

    status, refusal = await api.send("POST", MAPS.replace("default", "n"), {"metadata": {"name": "a"}})
    assert (status, refusal["reason"]) == (403, "Forbidden")
    assert refusal["message"] == (
        'configmaps "a" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    assert refusal["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    ending["spec"]["finalizers"] = []
    await api.ok("PUT", "/api/v1/namespaces/n/finalize", ending)
    assert (await api.refused("GET", "/api/v1/namespaces/n"))[0] == 404


@pytest.mark.parametrize(
    ("how", "finalizers"),
    [
        ({"body": {"propagationPolicy": "Foreground"}}, ["foregroundDeletion"]),
        ({"body": {"propagationPolicy": "Orphan"}}, ["orphan"]),
        ({"body": {"orphanDependents": True}}, ["orphan"]),
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
    ],
    ids=["foreground", "orphan", "orphan-as-of-old", "in-the-query"],
)
async def test_what_becomes_of_dependents_is_a_finalizer(api, how, finalizers):
    await api.map("a")
    deleted = await api.ok("DELETE", f"{MAPS}/a", **how)

    assert deleted["metadata"]["finalizers"] == finalizers
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    changed = await api.ok("DELETE", f"{MAPS}/a", {"propagationPolicy": "Background"})
    assert (changed["kind"], changed["status"]) == ("Status", "Success")


async def test_options_of_a_deletion_are_checked(api):
    await api.map("a")
    both = {"propagationPolicy": "Orphan", "orphanDependents": True}
    for body, text in (
        ({"propagationPolicy": "Now"}, 'supported values: "Background", "Foreground", "Orphan"'),
        (both, "orphanDependents and deletionPropagation cannot be both set"),
    ):
        code, message = await api.refused("DELETE", f"{MAPS}/a", body)
        assert (code, message.startswith("DeleteOptions.meta.k8s.io ")) == (422, True)
        assert text in message
    code, _ = await api.refused("DELETE", f"{MAPS}/a", {"preconditions": {"resourceVersion": "1"}})
    assert code == 409


async def test_finalizers_hold_an_object_and_the_last_lets_it_go(api):
    await api.map("a", finalizers=["example.com/f"])
    held = await api.ok("DELETE", f"{MAPS}/a")
    again = await api.ok("DELETE", f"{MAPS}/a")
    assert held == again

    gone = await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": None}})
    assert gone["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]
    assert names(await api.ok("GET", MAPS, fieldSelector="metadata.name=a")) == []


async def test_yaml_is_taken(api):
    made = await api.ok("POST", MAPS, b"metadata:\n  name: a\ndata:\n  x: z\n", content_type="application/yaml")
    assert made["data"] == {"x": "z"}


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", f"{MAPS}/a", 405),
        ("PUT", MAPS, 405),
        ("PATCH", MAPS, 405),
        ("DELETE", "/version", 405),
        ("BREW", MAPS, 405),
    ],
)
async def test_methods_that_mean_nothing_are_not_allowed(api, method, path, code):
    assert await api.refused(method, path, {}) == (
        code,
        "the server does not allow this method on the requested resource",
    )


async def test_content_types_that_nobody_reads_are_named(api):
    assert await api.refused("POST", MAPS, b"x", content_type="text/plain") == (
        415,
        (
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        ),
    )
    assert (await api.refused("GET", MAPS, accept="text/html"))[0] == 406


async def test_a_revision_that_is_still_to_come_is_waited_for(api):
    await api.map("a")
    code, text = await api.refused("GET", f"{MAPS}/a", resourceVersion="999999", accept=JSON)
    assert (code, text) == (504, f"Timeout: Too large resource version: 999999, current: {api.server.store.revision}")
