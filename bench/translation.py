"""What pods that ask in Koordinator's form cost on a real Kubernetes with fake nodes: pods per second, and admission.

Two clusters in one run. The first has the limits that Kubernetes' components set themselves by default; there the
creation of single pods is measured as well (`bench.admission`). On the second, the limits are raised, which leaves the
processors as the limit.

    python -m bench.translation [--quick] [--rounds N] [--pods N] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from bench import admission, readme, translation_rates
from bench.admission import Latencies
from bench.translated_pods import NODES, offer_devices
from bench.translation_rates import Rates
from tests.cluster.cluster import Cluster
from tests.cluster.options import STOCK_SCHEDULER_LIMITS, ClientLimits, Options
from tests.scenarios import api as kubernetes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.scenarios.api import Api

MARK: Final = "translation"

STOCK_CONTROLLER_LIMITS: Final = ClientLimits(qps=20, burst=30)
"""kube-controller-manager's defaults."""

RAISED: Final = ClientLimits(qps=1000, burst=2000)


class Report:
    """Everything that was measured, printed also when the bench fails or is interrupted."""

    def __init__(self, *, pods: int, rounds: int) -> None:
        self.pods, self.rounds = pods, rounds
        self.latencies = Latencies()
        self.default, self.raised = Rates("default limits"), Rates("raised limits")
        self.version = "?"

    def text(self) -> str:
        """Return all tables."""
        told = f"Kubernetes {self.version}, {NODES} fake nodes; medians of {self.rounds} rounds, {self.pods} pods"
        told += f" (raised limits: {raised_pods(self.pods)}); Python {sys.version.split()[0]}, {os.cpu_count()} cores."
        return "\n\n".join(
            (
                told,
                self.default.table(),
                self.raised.table(),
                f"Milliseconds of one creation, medians of {self.latencies.count:,} creations for each number:",
                self.latencies.table(),
            )
        )

    async def measure(self) -> None:
        """Measure everything; the tables hold what has been measured so far."""
        await self._on(
            Options(nodes=NODES, scheduler_limits=STOCK_SCHEDULER_LIMITS, controller_limits=STOCK_CONTROLLER_LIMITS),
            self._with_default_limits,
        )
        await self._on(
            Options(nodes=NODES, scheduler_limits=RAISED, controller_limits=RAISED),
            lambda cluster, api: translation_rates.measure(
                cluster, api, self.raised, pods=raised_pods(self.pods), rounds=self.rounds
            ),
        )

    async def _with_default_limits(self, cluster: Cluster, api: Api) -> None:
        await admission.measure(cluster, api, self.latencies, rounds=2 * self.rounds)
        await translation_rates.measure(cluster, api, self.default, pods=self.pods, rounds=self.rounds)

    async def _on(self, options: Options, act: Callable[[Cluster, Api], Coroutine[None, None, None]]) -> None:
        with Cluster(options) as cluster:
            self.version = cluster.kubernetes.removeprefix("v")
            async with kubernetes.connect(cluster.admin_kubeconfig) as api:
                await offer_devices(api)
                await act(cluster, api)


def raised_pods(pods: int) -> int:
    """Return the number of pods with raised limits, where all goes faster."""
    return 2 * pods


def main() -> None:
    """Measure, print what has been measured in any case, and with --write put it into the README."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="60 pods, once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, default=200, help="with default limits")
    parser.add_argument("--write", action="store_true", help="put the tables into bench/README.md")
    arguments = parser.parse_args()
    pods, rounds = (60, 1) if arguments.quick else (arguments.pods, arguments.rounds)
    report = Report(pods=pods, rounds=rounds)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a bench in the background ignores SIGINT
    try:
        asyncio.run(report.measure())
    finally:
        print(report.text())
    if arguments.write:
        readme.write(report.text(), mark=MARK)


if __name__ == "__main__":
    main()
