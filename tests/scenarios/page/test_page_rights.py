"""Least privilege of the page: each permission is needed, and the page tells each one that its account lacks.

The page runs as a service account of its own here, with copies of the installed roles from which rights are missing.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import pytest

from dra.cli.crd_manifests import CRDS_FOLDER
from dra.model.workload_types import WORKLOAD_TYPES
from tests.cluster.kubectl import kubectl
from tests.cluster.versions import minor
from tests.scenarios import installation, namespaces, objects
from tests.scenarios.eventually import eventually
from tests.scenarios.features import kubernetes_version
from tests.scenarios.page.page_client import signed_in
from tests.scenarios.page.page_process import VIEWER, PageProcess, token_for
from tests.scenarios.rights import Probe, Right, granted
from tests.scenarios.workload_kinds import crds_of_workloads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.scenarios.api import Api

FOLDER: Final = installation.DEPLOY / "page"
USER: Final = "page-reader"

LISTS: Final = sorted(right for right in granted(FOLDER) if right.verb == "list")
WATCHES: Final = sorted(right for right in granted(FOLDER) if right.verb == "watch")
LEASES: Final = sorted(right for right in granted(FOLDER) if right.verb == "get")
REVIEWS: Final = sorted(right for right in granted(FOLDER) if right.verb == "create")

LED: Final = ("controller", "descheduler")
"""Sections of the overview about processes that have a Lease."""


def label(right: Right) -> str:
    """Return the resource as the page names it: ``jobs.batch``, ``pods``."""
    return f"{right.resource}.{right.group}".rstrip(".")


NOT_SERVED: Final = frozenset({"devicetaintrules"} if minor(kubernetes_version()) < 37 else ())
"""Kinds that the API server does not serve by default."""

WORKLOADS: Final = frozenset(str(each.resource) for each in WORKLOAD_TYPES if each.readable)


@pytest.fixture(scope="module")
def reader(admin: Path) -> Iterator[str]:
    """A token for the page of an account that lists everything."""
    where = f"--namespace={installation.NAMESPACE}"
    kubectl("create", "serviceaccount", USER, where, kubeconfig=admin)
    subject = f"--serviceaccount={installation.NAMESPACE}:{USER}"
    kubectl("create", "clusterrolebinding", USER, f"--clusterrole={VIEWER}", subject, kubeconfig=admin)
    yield token_for(admin, USER, namespace=installation.NAMESPACE)
    kubectl("delete", "clusterrolebinding", USER, kubeconfig=admin)
    kubectl("delete", "serviceaccount", USER, where, kubeconfig=admin)


@pytest.fixture
async def probe(api: Api) -> AsyncIterator[Probe]:
    """An account for the page without any right."""
    found = Probe(api, FOLDER)
    await found.create()
    yield found
    await found.delete()


@pytest.fixture
def served_with(cluster: Cluster, admin: Path, probe: Probe) -> Iterator[PageProcess]:
    """A page server, not started yet, with the rights of the probe."""
    path = probe.kubeconfig(admin, cluster.folder.path)
    found = PageProcess(cluster.folder, path, name="page-of-probe")
    yield found
    found.process.stop()


def test_each_right_is_of_a_kind_that_a_test_here_takes_away() -> None:
    assert {*LISTS, *WATCHES, *LEASES, *REVIEWS} == granted(FOLDER)


@pytest.fixture(scope="module")
def kinds_of_workloads(admin: Path) -> Iterator[None]:
    """Definitions of all kinds of workloads that no API server has by itself."""
    definitions = [*crds_of_workloads()]
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    wanted = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    kubectl("apply", "--filename=-", kubeconfig=admin, stdin=wanted)
    kubectl("wait", "--for=condition=Established", *names, kubeconfig=admin)
    yield
    kubectl("delete", *names, kubeconfig=admin)


@pytest.fixture(scope="module")
def kind_of_node_metrics(admin: Path) -> Iterator[None]:
    """The definition of NodeMetrics, which come with colocation; a kind that is not served is not watched."""
    file = f"--filename={CRDS_FOLDER / 'nodemetrics.slo.koordinator.sh.yaml'}"
    kubectl("apply", file, kubeconfig=admin)
    kubectl("wait", "--for=condition=Established", file, kubeconfig=admin)
    yield
    kubectl("delete", file, kubeconfig=admin)


@pytest.fixture
async def claims_of_all_kinds(api: Api, kinds_of_workloads: None) -> AsyncIterator[None]:
    """A claim for a workload of each kind that the page may list."""
    del kinds_of_workloads
    async with namespaces.temporary(api, purpose="workloads") as namespace:
        for number, kind in enumerate(sorted(WORKLOADS)):
            reference = f"{kind}/absent"
            await namespace.create(objects.claim(f"claim-{number}", device_class="none", reserved_for=reference))
        yield


async def test_with_all_rights_nothing_is_missing(
    served_with: PageProcess, probe: Probe, reader: str, claims_of_all_kinds: None
) -> None:
    del claims_of_all_kinds
    await probe.may_all_but()
    served_with.process.start()
    async with signed_in(served_with, reader) as client:
        rows = await client.rows("overview")
        assert await client.unread() == {}
        assert not [row for row in rows if row["SECTION"] == "stale"]
        assert {row["SECTION"]: row["NAME"] for row in rows if row["SECTION"] in LED} == dict.fromkeys(LED, "absent")


async def test_each_kind_that_may_not_be_listed_is_told(
    served_with: PageProcess, probe: Probe, reader: str, claims_of_all_kinds: None
) -> None:
    """Claims are listed: they say which kinds of workloads are looked up."""
    del claims_of_all_kinds
    missing = [right for right in LISTS if right.resource not in {"resourceclaims", "events", *NOT_SERVED}]
    await probe.may_all_but(*missing)
    served_with.process.start()
    expected = {label(right) for right in missing}
    async with signed_in(served_with, reader) as client:
        unread = await client.unread()
        assert expected - unread.keys() == set()
        log = served_with.process.log.read_text(encoding="utf-8")
        assert [kind for kind in expected if not re.search(rf" {kind}: cannot be read: .*forbidden", log)] == []
        assert len(await client.rows("claims")) == len(WORKLOADS), "claims are shown all the same"


async def test_that_events_may_not_be_listed_is_told_while_a_pod_is_starting(
    served_with: PageProcess, probe: Probe, reader: str, api: Api
) -> None:
    await probe.may_all_but(*(right for right in LISTS if right.resource == "events"))
    async with namespaces.temporary(api, purpose="starting") as namespace:
        await namespace.create(objects.claim("claim", device_class="none"))
        await namespace.create(objects.pod("pod", objects.PodShape(claim="claim", spec={"nodeName": "absent"})))
        served_with.process.start()
        async with signed_in(served_with, reader) as client:
            assert (await client.unread()).keys() == {"events.events.k8s.io"}


async def test_that_claims_may_not_be_listed_is_told(served_with: PageProcess, probe: Probe, reader: str) -> None:
    await probe.may_all_but(*(right for right in LISTS if right.resource == "resourceclaims"))
    served_with.process.start()
    async with signed_in(served_with, reader) as client:
        assert "resourceclaims.resource.k8s.io" in await client.unread()
        assert await client.rows("claims") == []


async def test_each_kind_that_may_not_be_watched_is_told(
    served_with: PageProcess, probe: Probe, reader: str, kind_of_node_metrics: None
) -> None:
    del kind_of_node_metrics
    await probe.may_all_but(*WATCHES)
    served_with.process.start()
    async with signed_in(served_with, reader) as client:
        await client.shows(
            "overview",
            lambda rows: {label(right) for right in WATCHES} <= {r["NAME"] for r in rows if r["SECTION"] == "stale"},
            saying="each kind that is not watched",
        )


async def test_a_lease_that_may_not_be_read_leaves_its_process_unknown(
    served_with: PageProcess, probe: Probe, reader: str
) -> None:
    await probe.may_all_but(*LEASES)
    served_with.process.start()
    async with signed_in(served_with, reader) as client:
        rows = await client.rows("overview")
        assert {row["SECTION"]: row["NAME"] for row in rows if row["SECTION"] in LED} == dict.fromkeys(LED, "unknown")


@pytest.mark.parametrize("right", REVIEWS, ids=lambda right: right.resource)
async def test_without_a_review_nobody_signs_in_and_the_reason_is_told(
    served_with: PageProcess, probe: Probe, reader: str, right: Right
) -> None:
    await probe.may_all_but(right)
    served_with.process.start()
    async with signed_in(served_with, reader) as client:
        status, text = await client.get("/api/rows", view="claims")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert b"rows" not in text
        assert right.resource in served_with.process.log.read_text(encoding="utf-8")


async def test_a_right_that_is_granted_later_is_used_without_a_restart(
    served_with: PageProcess, probe: Probe, reader: str
) -> None:
    (right,) = (each for each in REVIEWS if each.resource == "subjectaccessreviews")
    await probe.may_all_but(right)
    served_with.process.start()
    async with signed_in(served_with, reader) as client:
        assert await client.status() == HTTPStatus.SERVICE_UNAVAILABLE
        await probe.may_all_but()
        await eventually(
            client.status, until=lambda status: status == HTTPStatus.OK, saying="the page answers its user"
        )
