"""Release rules on the kinds' own CRDs: claims are kept until a workload has finished for good, whatever is written.

No operator runs here. What operators write is played from their sources, see `operators`; the API server has the CRDs
that their projects publish, and refuses fields that these lack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.cluster import crds
from tests.scenarios import api as kubernetes
from tests.scenarios import objects, steps
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.audit import assert_no_device_was_taken, deallocations
from tests.scenarios.beside.operators import Operator
from tests.scenarios.beside.projects import CUT_DOWN, PROJECTS, Project
from tests.scenarios.claims import allocated, condition, listed, revision
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, CRDS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.needs(Capability.COMPONENTS)]

KEPT_FOR: Final = 0.5
"""Seconds for which a claim is watched in each state: a release by mistake takes a fifth."""

BURST: Final = 4
"""Pairs of statuses, finished and unfinished, that an operator writes as fast as the API server takes them."""

ROUNDS: Final = 2

STRICTLY: Final = {"fieldValidation": "Strict"}
"""Makes the API server refuse fields that a schema lacks, which it drops otherwise."""


@pytest.fixture(scope="module")
def served(target: Target) -> Iterator[dict[str, bytes]]:
    """CRDs that the API server has, by name; all of them go after the module, since this takes seconds for each."""
    found: dict[str, bytes] = {}
    yield found
    asyncio.run(_take_away_all(found, target))


@pytest.fixture(scope="module", params=PROJECTS, ids=str)
def chosen(request: pytest.FixtureRequest) -> Project:
    """One project; pytest runs all tests of a project after one another, so that CRDs of one name change seldom."""
    found: Project = request.param
    return found


@pytest.fixture
async def project(chosen: Project, api: Api, served: dict[str, bytes]) -> Project:
    """One project, whose CRDs the API server has."""
    try:
        definitions = chosen.definitions()
    except crds.NotAvailableError as error:
        pytest.skip(f"{chosen}: {error}")
    missing = {name: definition for name, definition in definitions.items() if served.get(name) != definition}
    await _take_away(missing, api)  # those of another project, or of a run that was killed
    for name, definition in missing.items():
        served[name] = definition
        await api.request("POST", CRDS.path(), definition, content_type="application/yaml")
    for name in missing:
        await eventually(
            partial(api.get, CRDS, name),
            until=lambda crd: condition(crd, "Established") == "True",
            saying=f"{name} is served",
        )
    return chosen


async def _take_away_all(names: Iterable[str], target: Target) -> None:
    async with kubernetes.connect(target.admin) as api:
        await _take_away(names, api)


async def _take_away(names: Iterable[str], api: Api) -> None:
    await asyncio.gather(*(api.delete(CRDS, name) for name in names))
    for name in names:
        await eventually(partial(api.find, CRDS, name), until=lambda crd: crd is None, saying=f"{name} is gone")


@pytest.mark.modes(Mode.REPLACE)
async def test_the_kinds_are_called_as_their_crds_have_it(project: Project, api: Api) -> None:
    for operator in project.operators:
        crd = (await api.get(CRDS, operator.group_resource))["spec"]
        group, _, version = operator.resource.api_version.partition("/")
        stored = [each["name"] for each in crd["versions"] if each["storage"]]
        assert (crd["group"], crd["names"]["kind"], crd["scope"]) == (group, operator.resource.kind, "Namespaced")
        assert stored == [version]
        assert all("status" in each["subresources"] for each in crd["versions"])


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.parametrize("chosen", [each for each in PROJECTS if each.example], indirect=True, ids=str)
async def test_an_example_fits_the_kinds_own_crd(project: Project, namespace: Namespace) -> None:
    assert project.example is not None
    (operator,) = [each for each in project.operators if each.resource.plural == f"{project.example.name}s"]
    found = _objects(project.example)
    (stand_in,) = [each["spec"] for each in found if each.get("kind") == CRDS.kind]
    _assert_within(stand_in, (await namespace.api.get(CRDS, operator.group_resource))["spec"])
    (workload,) = [each for each in found if each.get("kind") == operator.resource.kind]
    workload["metadata"]["namespace"] = namespace.name
    path = operator.resource.path(namespace=namespace.name)
    await namespace.api.request("POST", path, workload, query=STRICTLY)
    for patch in (each for each in found if "kind" not in each):
        await _write(namespace, operator, workload["metadata"]["name"], patch["status"])


def _assert_within(stand_in: Json, own: Json) -> None:
    """Assert that a stand-in for a CRD says nothing else than the CRD, but for its schema."""
    (version,) = stand_in["versions"]
    (same,) = [each for each in own["versions"] if each["name"] == version["name"]]
    assert same == {**same, **version, "schema": same["schema"], "subresources": same["subresources"]}
    assert own["names"] == own["names"] | stand_in["names"]
    assert (own["group"], own["scope"]) == (stand_in["group"], stand_in["scope"])


def _objects(folder: Path) -> list[Json]:
    """Return the objects and the patches of an example."""
    return [each for file in folder.glob("*.yaml") for each in yaml.safe_load_all(file.read_text())]


@pytest.mark.modes(Mode.REPLACE)
async def test_a_workload_names_a_claim_where_its_schema_has_room(project: Project, namespace: Namespace) -> None:
    for operator in project.operators:
        workload = replace(operator, names_claims=True).workload("any", claim="shared")
        path = operator.resource.path(namespace=namespace.name)
        refused = pytest.raises(ApiError, match=r"unknown field .*resourceClaim")
        with nullcontext() if operator.names_claims else refused:
            await namespace.api.request("POST", path, workload, query=STRICTLY | {"dryRun": "All"})


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.usefixtures("project", "controller")
async def test_a_claim_is_kept_until_its_workload_has_finished(project: Project, namespace: Namespace) -> None:
    lives = [(operator, end) for operator in project.operators for end in operator.finished or ["deleted"]]
    devices = await namespace.offer_devices(len(lives))
    async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
        ends = await asyncio.gather(*(_live(namespace, operator, end=end, devices=devices) for operator, end in lives))
    for (operator, end), revision_of_end in zip(lives, ends, strict=True):
        claim = claims.only(name := _name(operator, end))
        _assert_reserved_until(revision_of_end, claim, operator)
        assert await assert_no_device_was_taken(namespace, claim, pods, name) == 1


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.usefixtures("project", "controller")
async def test_an_operator_that_toggles_frees_no_claim_under_pods(project: Project, namespace: Namespace) -> None:
    await _frees_no_claim_under_pods(project, namespace)


@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.parametrize("chosen", [CUT_DOWN], indirect=True, ids=str)
@pytest.mark.usefixtures("project", "controller")
async def test_an_operator_that_toggles_beside_the_stock_controller_frees_no_claim_under_pods(
    project: Project, namespace: Namespace
) -> None:
    await _frees_no_claim_under_pods(project, namespace)


async def _frees_no_claim_under_pods(project: Project, namespace: Namespace) -> None:
    toggling = [operator for operator in project.operators if operator.finished]
    if not toggling:
        pytest.skip(f"{project}: its kinds have no end")
    devices = await namespace.offer_devices(len(toggling))
    async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
        await asyncio.gather(*(_toggle(namespace, operator, devices=devices) for operator in toggling))
    for operator in toggling:
        name = _name(operator, "toggling")
        assert await assert_no_device_was_taken(namespace, claims.only(name), pods, name) == ROUNDS + 1


def _name(operator: Operator, end: str) -> str:
    return f"{operator.resource.plural}-{end}"


async def _live(namespace: Namespace, operator: Operator, *, end: str, devices: str) -> int:
    """Let a workload go through its states; return the revision before which its claim may not be released."""
    name = _name(operator, end)
    await _create(namespace, operator, name, devices=devices)
    await _run_pod(namespace, name, claim=name)
    await _is_reserved(namespace, operator, name)
    states = iter(operator.unfinished.items())
    at = await _write(namespace, operator, name, next(states)[1])
    await steps.end_pods(namespace, name)
    await steps.claim_is(namespace, name, lambda claim: not listed(claim), saying="its pod has ended")
    for state, status in states:
        at = await _write(namespace, operator, name, status)
        await steadily(
            lambda: _is_kept(namespace, operator, name), lasting=KEPT_FOR, saying=f"claim {name} is kept while {state}"
        )
    if operator.finished:
        at = await _write(namespace, operator, name, operator.finished[end])
    else:
        await namespace.delete(operator.resource, name)
    await steps.freed(namespace, name)
    return at


async def _toggle(namespace: Namespace, operator: Operator, *, devices: str) -> None:
    """Let pods start and end while the operator writes that the workload has finished, and takes that back."""
    name = _name(operator, "toggling")
    await _create(namespace, operator, name, devices=devices)
    finished, unfinished = next(iter(operator.finished.values())), operator.unfinished[operator.takes_back]

    async def burst() -> None:
        for status in (finished, unfinished) * BURST:
            await _write(namespace, operator, name, status)

    for number in range(ROUNDS):
        pod = f"{name}-{number}"
        await asyncio.gather(burst(), _run_pod(namespace, pod, claim=name))
        await _is_reserved(namespace, operator, name)
        if number == 0:
            await _write(namespace, operator, name, finished)
            await steps.told(namespace, name, "ReleaseWaitsForPods")
        await asyncio.gather(burst(), steps.end_pods(namespace, pod))  # freed or not: what was read last decides
    await _write(namespace, operator, name, finished)
    await steps.freed(namespace, name)
    await _write(namespace, operator, name, unfinished)
    await _run_pod(namespace, f"{name}-last", claim=name)
    await _is_reserved(namespace, operator, name)
    await burst()
    await steps.end_pods(namespace, f"{name}-last")
    await steps.claim_is(namespace, name, lambda claim: not listed(claim), saying="its last pod has ended")
    await steadily(lambda: _is_kept(namespace, operator, name), lasting=KEPT_FOR, saying=f"claim {name} is kept")
    await _write(namespace, operator, name, finished)
    await steps.freed(namespace, name)


async def _create(namespace: Namespace, operator: Operator, name: str, *, devices: str) -> None:
    path = operator.resource.path(namespace=namespace.name)
    await namespace.api.request("POST", path, operator.workload(name, claim=name), query=STRICTLY)
    reserved_for = f"{operator.group_resource}/{name}"
    await namespace.create(objects.claim(name, device_class=devices, reserved_for=reserved_for))


async def _run_pod(namespace: Namespace, name: str, *, claim: str) -> None:
    await namespace.create(objects.pod(name, PodShape(claim=claim, gated=True)))
    await steps.pods_run(namespace, name)


async def _write(namespace: Namespace, operator: Operator, name: str, status: Json) -> int:
    """Replace the whole status; return the revision of the write."""
    path = operator.resource.path(namespace=namespace.name, name=name, subresource="status")
    whole = [{"op": "add", "path": "/status", "value": status}]
    written = await namespace.api.request(
        "PATCH", path, whole, query=STRICTLY, content_type="application/json-patch+json"
    )
    assert written["status"] == written["status"] | status, "the schema drops nothing"
    return int(revision(written))


async def _is_reserved(namespace: Namespace, operator: Operator, name: str) -> None:
    await steps.claim_is(
        namespace, name, lambda claim: listed(claim, operator.resource.plural), saying="it is reserved"
    )


async def _is_kept(namespace: Namespace, operator: Operator, name: str) -> bool:
    claim = await namespace.get(CLAIMS, name)
    return allocated(claim) and listed(claim, operator.resource.plural) == {name}


def _assert_reserved_until(end: int, claim: WatchHistory, operator: Operator) -> None:
    """Assert that the claim was reserved for the workload from the first entry to the end, and freed once after."""
    before = [version.object for version in claim.versions if int(revision(version.object)) <= end]
    reserved = [bool(listed(version, operator.resource.plural)) for version in before]
    assert all(reserved[reserved.index(True) :])
    assert [int(freed) > end for freed in deallocations(claim)] == [True]
