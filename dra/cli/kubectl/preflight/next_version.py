"""Checks what Kubernetes 1.38 refuses of stored claims, templates and ResourceSlices; no row if there is nothing."""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Final, TypeVar

from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.engine.diagnosis.upgrade_obstacles import (
    UpgradeObstacle,
    is_ahead,
    obstacles_of_claim,
    obstacles_of_slice,
    obstacles_of_template,
)
from dra.engine.messages.documentation import page_url
from dra.engine.messages.remedies import WeighedChoice
from dra.kube.client import Client
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import CLAIMS, SLICES, TEMPLATES, Resource
from dra.model.claims import ResourceClaim
from dra.model.meta import Struct
from dra.model.slices import ManagedResourceSlice
from dra.model.templates import ResourceClaimTemplate

CHECK: Final = "Kubernetes 1.38"

PRINTED_MAX: Final = 5
"""Obstacles that are printed; the others are counted."""

OBSTACLES_MAX: Final = 1000
"""Obstacles that are counted: tenants may create any number."""

PAGE: Final = f"{page_url('how-to/upgrade.md')}#before-kubernetes-138"

T = TypeVar("T", bound=Struct)


async def check_upgrade(client: Client) -> list[CheckResult]:
    """Return a result if something stored stands in the way of 1.38; none if nothing does, or it may not be read.

    On 1.38 itself, only what stops all scheduling counts.
    """
    obstacles: dict[UpgradeObstacle, None] = {}
    counts_all = is_ahead(await client.git_version())
    async for obstacle in _obstacles(client):
        if counts_all or obstacle.stops_scheduling:
            obstacles[obstacle] = None
        if len(obstacles) >= OBSTACLES_MAX:
            break
    return judge_obstacles(obstacles)


async def _obstacles(client: Client) -> AsyncIterator[UpgradeObstacle]:
    async for claim in _readable(client, CLAIMS, ResourceClaim):
        for obstacle in obstacles_of_claim(claim):
            yield obstacle
    async for resource_slice in _readable(client, SLICES, ManagedResourceSlice):
        for obstacle in obstacles_of_slice(resource_slice):
            yield obstacle
    async for template in _readable(client, TEMPLATES, ResourceClaimTemplate):
        for obstacle in obstacles_of_template(template):
            yield obstacle


async def _readable(client: Client, resource: Resource, model: type[T]) -> AsyncIterator[T]:
    """Yield the objects of a kind; nothing where the kind may not be read, or is not served."""
    with suppress(Forbidden, NotFound):
        async for page in client.list_pages(resource, model):
            for item in page.items:
                yield item


def _by_urgency(obstacle: UpgradeObstacle) -> tuple[bool, str]:
    return (not obstacle.stops_scheduling, str(obstacle.subject))


def judge_obstacles(obstacles: Iterable[UpgradeObstacle]) -> list[CheckResult]:
    """Return the result for the obstacles, the one that stops all scheduling first; no result if there are none."""
    ordered = sorted(obstacles, key=_by_urgency)
    if not ordered:
        return []
    printed = "; ".join(f"{obstacle.subject}: {obstacle.what}" for obstacle in ordered[:PRINTED_MAX])
    more = f"; and {len(ordered) - PRINTED_MAX} more" if len(ordered) > PRINTED_MAX else ""
    remedy = WeighedChoice(f"change or delete these, or upgrade the driver: {PAGE}")
    return [CheckResult(check=CHECK, state=CheckState.WARNING, detail=f"{printed}{more}", remedy=remedy)]
