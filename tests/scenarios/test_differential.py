"""Ours does what the stock resourceclaim controller does, wherever there is no workload to reserve for.

Hundreds of scripts, each played before both: see tests/scenarios/differential. One that differs is printed with its
seed, as short as it can be. Some seeds only: DRA_DIFFERENTIAL_SEEDS=17-19 pytest tests/scenarios/test_differential.py
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Final, get_args

import pytest

from tests.cluster.cluster import Cluster
from tests.scenarios import installation
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.differential import operations as ops
from tests.scenarios.differential import scripts, servers
from tests.scenarios.differential.duel import PATIENCE, Duel, Verdict
from tests.scenarios.differential.mirror import Mirror
from tests.scenarios.differential.operations import Script
from tests.scenarios.differential.shortening import shorten
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.cluster, pytest.mark.needs(Capability.COMPONENTS)]

SEEDS: Final = os.environ.get("DRA_DIFFERENTIAL_SEEDS", "")
ALL_SEEDS: Final = "0-270"

ALL_SEEDS_BEFORE_36: Final = "0-390"
"""The stock controller of older versions has more faults, and no claims of extended resources: more is left out."""

KEPT_IN_DOUBT: Final = frozenset({369})
"""Seeds of scripts that delete a pod by force after its status pointed to another claim.

The entry in the first claim names a pod of which no node is known, and the nodes of the scripts do not report in. Ours
keeps the entry, since the pod may run there; stock frees the devices (docs/explanation/guarantees.md).
"""

ENOUGH: Final = 200
"""Scripts that must have been equal to their end."""

BY_CHANCE: Final = 2
"""Scripts that may differ once and not again: what is done in one moment may be seen by stock in two orders."""

TWINS: Final = range(1000, 1040)
"""Seeds for stock against itself."""

AT_ONCE: Final = 150
"""Scripts under way at a time: most of their time they wait for something to come to rest."""

SHORTENED: Final = 3
"""Differences that are made short and shown; the others are counted."""

IMPATIENCE: Final = 40.0
"""Seconds after which a difference is one while it is made short: longer than batches wait, else it takes too long."""

AWAKE: Final = 20.0
"""Seconds within which servers that have just started do all that they are going to do."""

TELLING: Final[Script] = (
    (ops.CreateClaim("one"), ops.CreatePod("web", (ops.Want("first", claim="one"),))),
    (ops.Schedule("web", "n1"),),
    (ops.Finish("web"),),
)
"""Whoever does nothing differs from stock in this."""

OPERATIONS: Final = set(get_args(ops.Operation))

Remark = Callable[[str], None]


@pytest.fixture(scope="module")
def stock_server() -> Iterator[Cluster]:
    """A server with the stock controller, for all tests: each script has a namespace of its own."""
    with servers.cluster(servers.STOCK) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def other_server() -> Iterator[Cluster]:
    """A server without any claim controller, with room for ours."""
    with servers.cluster(servers.OURS) as cluster:
        yield cluster


@pytest.fixture
async def stock(stock_server: Cluster) -> AsyncIterator[Mirror]:
    async with servers.mirrored(stock_server) as mirror:
        yield mirror


@pytest.fixture
async def nobody(other_server: Cluster) -> AsyncIterator[Mirror]:
    """A server without any claim controller."""
    async with servers.mirrored(other_server) as mirror:
        yield mirror


@pytest.fixture
async def ours(other_server: Cluster) -> AsyncIterator[Mirror]:
    """A server with our controller, as the kustomization installs it."""
    installation.install(other_server.admin_kubeconfig)
    kubeconfig = installation.controller_kubeconfig(other_server.admin_kubeconfig, other_server.folder.path)
    settings = Settings(kubeconfig=kubeconfig, mode=Mode.REPLACE, configuration={"leaderElection": {"enabled": False}})
    controller = Controller(other_server.folder, settings)
    await controller.start()
    async with servers.mirrored(other_server) as mirror:
        yield mirror
    await controller.stop()


def _has_extended_claims(script: Script) -> bool:
    """Return whether a script writes a claim of extended resources into the status of a pod."""
    return any(isinstance(operation, ops.ExtendedClaim) for step in script for operation in step)


@pytest.mark.parametrize("part", [pytest.param(2, id="half"), pytest.param(1, id="all", marks=pytest.mark.long)])
async def test_stock_is_equal_to_itself(stock: Mirror, part: int) -> None:
    """What differs between two runs of stock, and does so again, is the harness's fault."""

    async def fight(seeds: Iterable[int]) -> dict[int, Verdict]:
        duels = [Duel(scripts.write(seed), (stock, stock), stocks=2) for seed in seeds]
        return dict(zip(seeds, await asyncio.gather(*(duel.fight() for duel in duels)), strict=True))

    verdicts = await fight(TWINS[: len(TWINS) // part])
    once = [seed for seed, verdict in verdicts.items() if verdict.difference]
    again = await fight(once)
    assert not {seed: verdict.difference for seed, verdict in again.items() if verdict.difference}
    assert len(once) <= BY_CHANCE
    assert sum(verdict.deviation is None for verdict in verdicts.values()) > len(verdicts) / 2


async def test_who_does_nothing_differs_from_stock(stock: Mirror, nobody: Mirror) -> None:
    verdict = await Duel(TELLING, (stock, nobody), patience=AWAKE).fight()
    assert (verdict.rounds, bool(verdict.difference)) == (2, True), str(verdict)


@pytest.mark.timeout(1800)  # differences are made short, which takes minutes
@pytest.mark.parametrize("part", [pytest.param(3, id="a-third"), pytest.param(1, id="all", marks=pytest.mark.long)])
async def test_ours_is_equal_to_stock(stock: Mirror, ours: Mirror, remark: Remark, part: int) -> None:
    extended = Feature.EXTENDED_RESOURCES.among(kubernetes_version())
    first, end = map(int, (SEEDS or (ALL_SEEDS if extended else ALL_SEEDS_BEFORE_36)).split("-"))
    turn = asyncio.Semaphore(AT_ONCE)

    async def fight(script: Script, *, patience: float = PATIENCE) -> Verdict:
        async with turn:
            return await Duel(script, (stock, ours), patience=patience).fight()

    seeds = [seed for seed in range(first, end) if extended or not _has_extended_claims(scripts.write(seed))]
    if not SEEDS:
        seeds = [seed for seed in seeds if seed not in KEPT_IN_DOUBT]
        seeds = seeds[part - 1 :: part]  # seeds 2, 5, 8, … have every operation, as all have
    if not extended:
        left = sum(_has_extended_claims(scripts.write(seed)) for seed in range(first, end))
        remark(f"differential: {left} left out: the server drops the names of extended claims")
    verdicts = dict(zip(seeds, await asyncio.gather(*(fight(scripts.write(seed)) for seed in seeds)), strict=True))
    once = {seed: verdict for seed, verdict in verdicts.items() if verdict.difference}
    again = dict(zip(once, await asyncio.gather(*(fight(scripts.write(seed)) for seed in once)), strict=True))
    different = {seed: verdict for seed, verdict in again.items() if verdict.difference}
    for seed in once.keys() - different.keys():
        remark(f"differential: seed {seed} differed once, not again:\n{once[seed].difference}")
    equal = sum(verdict.deviation is None and not verdict.difference for verdict in verdicts.values())
    left_out = Counter(verdict.deviation.value for verdict in verdicts.values() if verdict.deviation)
    remark(f"differential: {equal} of {len(seeds)} scripts equal to their end, {len(different)} different")
    for deviation, count in left_out.most_common():
        remark(f"differential: {count} left out: {deviation}")

    shown = dict(list(different.items())[:SHORTENED])
    impatient = partial(fight, patience=IMPATIENCE)
    shortest = await asyncio.gather(*(shorten(verdict, impatient) for verdict in shown.values()))
    told = [f"seed {seed}:\n{verdict}" for seed, verdict in zip(shown, shortest, strict=True)]
    if different:
        pytest.fail("\n\n".join([f"{len(different)} scripts differ, seeds {list(different)}", *told]), pytrace=False)
    assert len(once) <= BY_CHANCE
    if not SEEDS:
        assert equal >= ENOUGH // part
        played = {kind for verdict in verdicts.values() for kind in verdict.done}
        assert played >= (OPERATIONS if extended else OPERATIONS - {ops.ExtendedClaim})
