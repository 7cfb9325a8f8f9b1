"""The page in a cluster, on a real API server: who signs in, what each user sees, and what the account cannot do."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import pytest

from tests.cluster import fake_nodes
from tests.cluster.kubectl import KubectlError, kubectl
from tests.pages.reading import ROOT, blocks
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, objects
from tests.scenarios.api import ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.page.conftest import NODES_OF_THE_CLUSTER
from tests.scenarios.page.page_client import signed_in
from tests.scenarios.page.page_process import token_for
from tests.scenarios.page.tenants import USER
from tests.scenarios.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    RESOURCE_SLICES,
    ROLE_BINDINGS,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.scenarios.api import Api
    from tests.scenarios.page.page_process import PageProcess
    from tests.scenarios.page.tenants import Tenant

PAGE: Final = "docs/how-to/page.md"
REVIEWED_WITHIN: Final = 60.0
"""Seconds within which an open stream ends without its rights: the next review, and the life of an answer before."""

Tenants = tuple["Tenant", "Tenant"]


@pytest.fixture(scope="module")
def everything(admin: Path) -> Iterator[str]:
    """A token of an account that lists everything: made with the commands of the documentation, as written."""
    (commands,) = (
        block.commands for block in blocks(PAGE) if block.section == "Sign in" and "NAMESPACE" not in str(block)
    )
    *create, token = (command.removeprefix("kubectl ").split() for command in commands)
    for each in create:
        kubectl(*each, kubeconfig=admin)
    yield kubectl(*token, kubeconfig=admin).strip()
    kubectl("delete", "clusterrolebinding", "page-user", kubeconfig=admin)
    kubectl("delete", "serviceaccount", "page-user", f"--namespace={installation.NAMESPACE}", kubeconfig=admin)


def test_the_api_server_takes_the_commands_of_the_page(admin: Path) -> None:
    """Of the sections about the cluster, but for the sign-in, which the other tests do; what exists stays as it is."""
    sections = {"In the cluster, for several users", "Rights, metrics, remove"}
    commands = [each for block in blocks(PAGE) if block.section in sections for each in block.runnable]
    run = [each.removeprefix("kubectl ").split() for each in commands if each.startswith("kubectl ")]
    assert {words[0] for words in run} == {"apply", "create", "delete", "rollout"}
    for words in run:
        changes = () if words[0] == "rollout" else ("--dry-run=server",)
        here = [each.replace("workflows.argoproj.io", "cronjobs.batch") for each in words]  # kubectl looks the kind up
        kubectl(*[str(ROOT / each) if each == "deploy/page" else each for each in here], *changes, kubeconfig=admin)


async def test_an_administrator_sees_all_namespaces_and_every_view(
    page: PageProcess, everything: str, tenants: Tenants
) -> None:
    async with signed_in(page, everything) as client:
        names = {f"{each.name}/{each.object_name(suffix)}" for each in tenants for suffix in ("train", "waits")}
        await client.shows("claims", lambda rows: names <= {row["KEY"] for row in rows}, saying="both tenants")
        assert set((await client.all_views()).values()) == {HTTPStatus.OK}
        assert await client.unread() == {}
        nodes = {row["NODE"] for row in await client.rows("nodes")}
        assert nodes == {*fake_nodes.names(NODES_OF_THE_CLUSTER), "<any>"}, "the tenants' devices are on no node"
        drivers = {row["DEVICE"].partition("/")[0] for row in await client.rows("devices")}
        assert {f"{each.name}.scenario.dra" for each in tenants} <= drivers


async def test_a_change_in_the_cluster_reaches_an_open_stream(
    page: PageProcess, everything: str, tenants: Tenants
) -> None:
    one, _ = tenants
    async with signed_in(page, everything) as client:
        await client.shows("claims", lambda rows: one.name in {row["NAMESPACE"] for row in rows}, saying="the tenant")
        async with client.events("claims") as events:
            await eventually(lambda: b"event:" in events.text, saying="the stream has begun")
            await one.join(1)
            await eventually(
                lambda: one.object_name("train").encode() in events.text.rpartition(b"event: patch")[2],
                saying="the claim's row is sent again",
            )


async def test_a_tenant_sees_its_own_namespace_and_no_byte_of_others(page: PageProcess, tenants: Tenants) -> None:
    one, other = tenants
    async with signed_in(page, one.token, namespace=one.name) as client:
        rows = await client.shows("claims", lambda rows: len(rows) == 2, saying="the claims of the namespace")
        assert {row["NAMESPACE"] for row in rows} == {one.name}
        await client.all_views()
        for kind, name in (("claim", "train"), ("pod", "waits")):
            query = {"kind": kind, "namespace": one.name, "name": one.object_name(name)}
            status, body = await client.get("/api/object", **query)
            assert (status, one.object_name(name).encode() in body) == (HTTPStatus.OK, True)
        async with client.events("overview", "claims") as events:
            await eventually(lambda: b"event:" in events.text, saying="the stream has begun")
            await other.join(1)
            mine = await one.join(1)
            await eventually(
                lambda: one.object_name("train").encode() in events.text.rpartition(b"event: patch")[2],
                saying=f"the row of the claim that {mine} has joined is sent",
            )
        assert one.name.encode() in client.answered
        assert other.name.encode() not in client.answered


async def test_a_claim_has_its_events_and_those_of_no_other(page: PageProcess, tenants: Tenants) -> None:
    one, _ = tenants
    for suffix in ("train", "waits"):
        name = one.object_name(suffix)
        about = await one.namespace.get(CLAIMS, name)
        uid = about["metadata"]["uid"]
        await one.namespace.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{name}.1"},
                "involvedObject": {
                    "kind": "ResourceClaim",
                    "namespace": one.name,
                    "name": name,
                    "uid": uid,
                },
                "reason": "Played",
                "message": f"about {suffix}",
                "type": "Normal",
            }
        )
    async with signed_in(page, one.token, namespace=one.name) as client:
        query = {"kind": "claim", "namespace": one.name, "name": one.object_name("train")}
        status, body = await client.get("/api/object", **query)
        notes = [note for _, reason, _, note in json.loads(body)["events"] if reason == "Played"]
        assert (status, notes) == (HTTPStatus.OK, ["about train"])


async def test_a_workload_of_a_tenant_has_a_page_and_another_tenant_is_refused(
    page: PageProcess, tenants: Tenants
) -> None:
    one, other = tenants
    for tenant in tenants:
        await tenant.namespace.create(
            objects.claim(
                tenant.object_name("planned"),
                device_class=f"{tenant.name}.scenario.dra",
                reserved_for="jobs.batch/planned",
            )
        )
    async with signed_in(page, one.token, namespace=one.name) as client:
        key = f"{one.name}/jobs.batch/planned"
        await client.shows("workloads", lambda rows: key in {row["KEY"] for row in rows}, saying="the workload")
        query = {"kind": "workload", "name": "jobs.batch/planned"}
        status, body = await client.get("/api/object", namespace=one.name, **query)
        content = json.loads(body)
        assert (status, content["links"]["claims"]) == (HTTPStatus.OK, [f"{one.name}/{one.object_name('planned')}"])
        status, _ = await client.get("/api/object", namespace=other.name, **query)
        assert status == HTTPStatus.FORBIDDEN
        assert other.object_name("planned").encode() not in client.answered


@pytest.mark.parametrize("kind", ["claim", "pod"])
async def test_a_tenant_is_told_the_same_of_objects_that_exist_elsewhere_and_that_do_not(
    page: PageProcess, tenants: Tenants, kind: str
) -> None:
    one, other = tenants
    async with signed_in(page, one.token, namespace=one.name) as client:
        answers = [
            await client.get("/api/object", kind=kind, namespace=other.name, name=name)
            for name in (other.object_name("train"), other.object_name("absent"))
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("namespace", ["", "other"], ids=["the-whole-cluster", "the-namespace-of-another"])
async def test_a_tenant_cannot_sign_in_to_more_than_its_own_namespace(
    page: PageProcess, tenants: Tenants, namespace: str
) -> None:
    one, other = tenants
    async with signed_in(page, one.token, namespace=other.name if namespace else "") as client:
        assert set((await client.all_views()).values()) == {HTTPStatus.FORBIDDEN}
        assert other.object_name("train").encode() not in client.answered


async def test_a_tenant_sees_no_devices_since_a_free_one_may_be_held_elsewhere(
    page: PageProcess, tenants: Tenants
) -> None:
    one, _ = tenants
    async with signed_in(page, one.token, namespace=one.name) as client:
        refused = {view for view, status in (await client.all_views()).items() if status == HTTPStatus.FORBIDDEN}
        assert refused == {"devices", "nodes", "reservations", "migrations", "rounds"}


@pytest.mark.parametrize("audience", ["", "https://kubernetes.default.svc", "another-page"])
async def test_a_token_for_another_audience_does_not_sign_in(
    page: PageProcess, admin: Path, tenants: Tenants, audience: str
) -> None:
    one, _ = tenants
    token = token_for(admin, USER, namespace=one.name, audience=audience)
    async with signed_in(page, token, namespace=one.name) as client:
        assert set((await client.all_views()).values()) == {HTTPStatus.UNAUTHORIZED}
        assert one.name.encode() not in client.answered


@pytest.mark.parametrize("token", ["", "x", "eyJhbGciOiJub25lIn0.e30.", "x" * 100_000], ids=len)
async def test_what_is_no_token_does_not_sign_in(page: PageProcess, token: str) -> None:
    async with signed_in(page, token) as client:
        try:
            assert await client.status() == HTTPStatus.UNAUTHORIZED
        except AssertionError:
            assert len(token) > 10_000
            assert await client.status() == HTTPStatus.BAD_REQUEST  # longer than a header may be


async def test_a_token_for_the_page_is_of_no_use_on_the_api_server(admin: Path, tenants: Tenants) -> None:
    one, _ = tenants
    anonymous = _anonymous(admin)
    with pytest.raises(KubectlError, match=r"must be logged in|Unauthorized"):
        kubectl("get", "resourceclaims", f"--namespace={one.name}", f"--token={one.token}", kubeconfig=anonymous)


def _anonymous(admin: Path) -> Path:
    """Return a kubeconfig of the same server without a user."""
    content = json.loads(admin.read_text())
    content["users"] = [{"name": each["name"], "user": {}} for each in content["users"]]
    path = admin.with_name("anonymous.kubeconfig")
    path.write_text(json.dumps(content))
    return path


async def test_an_account_without_rights_sees_nothing(page: PageProcess, admin: Path, tenants: Tenants) -> None:
    one, _ = tenants
    token = token_for(admin, "default", namespace=one.name)
    for namespace in ("", one.name):
        async with signed_in(page, token, namespace=namespace) as client:
            assert set((await client.all_views()).values()) == {HTTPStatus.FORBIDDEN}
            assert one.object_name("train").encode() not in client.answered


@pytest.mark.long
async def test_an_open_stream_ends_when_the_binding_is_revoked(page: PageProcess, api: Api, tenants: Tenants) -> None:
    one, other = tenants
    async with (
        signed_in(page, one.token, namespace=one.name) as client,
        signed_in(page, other.token, namespace=other.name) as neighbour,
        client.events("claims") as events,
        neighbour.events("claims") as others,
    ):
        await eventually(lambda: b"event:" in events.text and b"event:" in others.text, saying="the streams have begun")
        await api.delete(ROLE_BINDINGS, USER, namespace=one.name)
        await eventually(events.ended.is_set, within=REVIEWED_WITHIN + 10, saying="the stream has ended")
        assert await client.status() == HTTPStatus.FORBIDDEN
        assert not others.ended.is_set()
        assert await neighbour.status() == HTTPStatus.OK


async def test_only_get_and_head_exist(page: PageProcess, everything: str) -> None:
    async with signed_in(page, everything) as client:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            for path in ("/", "/api/rows?view=claims", "/api/object?kind=claim&namespace=a&name=b", "/api/events"):
                async with client.session.request(method, path) as answer:
                    assert answer.status == HTTPStatus.METHOD_NOT_ALLOWED, (method, path)


@pytest.mark.parametrize(
    "resource",
    [
        *(PODS, CLAIMS, CLAIM_TEMPLATES, JOBS, LEASES, NAMESPACES, NODES),
        *(DEVICE_CLASSES, RESOURCE_SLICES, RESERVATIONS, POD_MIGRATION_JOBS),
    ],
    ids=lambda each: each.plural,
)
async def test_the_api_server_refuses_writes_of_the_account(account: Path, resource: Resource) -> None:
    within = {"namespace": installation.NAMESPACE} if resource.namespaced else {}
    async with kubernetes.connect(account) as client:
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}}
        requests = [
            ("POST", resource.path(**within), obj, "application/json"),
            ("PUT", resource.path(**within, name="x"), obj, "application/json"),
            ("PATCH", resource.path(**within, name="x"), {}, "application/merge-patch+json"),
            ("DELETE", resource.path(**within, name="x"), None, "application/json"),
            ("DELETE", resource.path(**within), None, "application/json"),
        ]
        for method, path, body, content_type in requests:
            with pytest.raises(ApiError) as refused:
                await client.request(method, path, body, content_type=content_type)
            assert refused.value.status == HTTPStatus.FORBIDDEN, (method, path)


def test_the_account_may_do_what_the_chart_grants_and_nothing_else(account: Path) -> None:
    """As the API server itself lists it; the last lines are what every account may do."""
    shown = kubectl("auth", "can-i", "--list", f"--namespace={installation.NAMESPACE}", kubeconfig=account)
    verbs = {line.split()[0]: set(re.findall(r"[a-z*]+", line.rpartition("[")[2])) for line in shown.splitlines()[1:]}
    reviews = {"tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"}
    of_everybody = {name for name in verbs if name.startswith("self")}
    for name, found in verbs.items():
        if name in reviews | of_everybody:
            assert found == {"create"}, name
        else:
            assert found <= {"get", "list", "watch"}, name
    assert reviews <= verbs.keys()
