"""The stock claim controller, switched on and off while a scenario runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.cluster.options import ALL_CONTROLLERS, WITHOUT_CLAIM_CONTROLLER

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster


class StockController:
    """The resourceclaim-controller of kube-controller-manager."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    async def switch(self, *, on: bool) -> None:
        """Restart kube-controller-manager with it, or without."""
        controllers = ALL_CONTROLLERS if on else WITHOUT_CLAIM_CONTROLLER
        await asyncio.to_thread(self._cluster.run_controllers, controllers)
