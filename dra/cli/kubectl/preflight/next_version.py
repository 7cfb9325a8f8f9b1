"""Checks what Kubernetes 1.38 refuses of stored claims, templates and ResourceSlices; no row if there is nothing."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Final

from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.engine.diagnosis.upgrade_obstacles import (
    Content,
    UpgradeObstacle,
    obstacles_of_claim,
    obstacles_of_slice,
    obstacles_of_template,
)
from dra.engine.messages.documentation import page_url
from dra.engine.messages.remedies import WeighedChoice
from dra.kube.client import Client
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import CLAIMS, SLICES, TEMPLATES, Resource
from dra.model.meta import UnstructuredObject

CHECK: Final = "Kubernetes 1.38"

TOLD_MAX: Final = 5
"""Obstacles that are printed; the others are counted."""

OBSTACLES_MAX: Final = 1000
"""Obstacles that are counted: tenants may create any number."""

PAGE: Final = f"{page_url('how-to/upgrade.md')}#before-kubernetes-138"

_LOOKED_AT: Final[tuple[tuple[Resource, Callable[[Content], Iterator[UpgradeObstacle]]], ...]] = (
    (CLAIMS, obstacles_of_claim),
    (SLICES, obstacles_of_slice),
    (TEMPLATES, obstacles_of_template),
)


async def check_upgrade(client: Client) -> list[CheckResult]:
    """Return a result if something stored stands in the way of 1.38; none if nothing does, or it may not be read."""
    obstacles: dict[UpgradeObstacle, None] = {}
    async for obstacle in _obstacles(client):
        obstacles[obstacle] = None
        if len(obstacles) >= OBSTACLES_MAX:
            break
    return judge_obstacles(obstacles)


async def _obstacles(client: Client) -> AsyncIterator[UpgradeObstacle]:
    for resource, obstacles_of in _LOOKED_AT:
        try:
            async for page in client.list_pages(resource, UnstructuredObject):
                for item in page.items:
                    for obstacle in obstacles_of(item.content):
                        yield obstacle
        except (Forbidden, NotFound):
            continue


def judge_obstacles(obstacles: Iterable[UpgradeObstacle]) -> list[CheckResult]:
    """Return the result for the obstacles, the one that stops all scheduling first; no result if there are none."""
    ordered = sorted(obstacles, key=lambda obstacle: (not obstacle.stops_scheduling, obstacle.subject))
    if not ordered:
        return []
    told = "; ".join(f"{obstacle.subject}: {obstacle.what}" for obstacle in ordered[:TOLD_MAX])
    more = f"; and {len(ordered) - TOLD_MAX} more" if len(ordered) > TOLD_MAX else ""
    remedy = WeighedChoice(f"before an upgrade to 1.38, change or delete these, or upgrade the driver: {PAGE}")
    return [CheckResult(check=CHECK, state=CheckState.WARNING, detail=f"{told}{more}", remedy=remedy)]
