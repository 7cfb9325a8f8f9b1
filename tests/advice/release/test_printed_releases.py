"""Each release that is printed about a generated world without a controller releases the claim, in its default time.

ADVICE_SEED says from which number on the worlds are generated, as in `tests.advice.test_worlds`.
"""

import os
import shlex

import pytest

from dra.cli.kubectl.claim_commands import ReleaseOptions, release_claim
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.declarations.management import release
from dra.cli.kubectl.main import main as kubectl_dra
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.advice import asking, comparing
from tests.advice.worlds import World
from tests.dra.kube.virtual import LoopClock, seeded
from tests.seeds import first_seed

WORLDS = 2 * int(os.environ.get("ADVICE_WORLDS", "6"))
SEED = first_seed("ADVICE_SEED")


async def printed_releases(server):
    """Return the claims that are advised to be released, each with the options of the command."""
    commands = {each.command for each in asking.printed(await asking.snapshot(server))}
    released = {}
    for command in commands:
        words = shlex.split(command)
        if words[:3] == ["kubectl", "dra", "release"]:
            # Click keeps the names of the first context for the help option of a command.
            context = release.make_context("release", words[3:], **kubectl_dra.context_settings)
            params = context.params
            key = (params["namespace"], params["name"])
            released[key] = ReleaseOptions(
                key=key, lease=asking.LEASE, timeout=params["timeout"], if_unused=params["if_unused"]
            )
    return released


@pytest.mark.parametrize("seed", range(SEED, SEED + WORLDS))
async def test_a_printed_release_releases_without_a_controller_and_harms_nothing(seed):
    """A printed release gave up after 100 s in each trial: it waited for a write that nobody made."""
    clock = LoopClock()
    server = ApiServer(clock=clock, random=seeded(1))
    world = World(server, seed)
    await world.make()
    if ("leases", "dra-reserve", asking.LEASE[1]) in await world.state():
        await world.ask("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/dra-reserve/leases/{asking.LEASE[1]}")
    transport = LocalTransport(server)
    connection = Connection(
        client=Client(transport, RateLimiter(1e6, 1e6, clock=clock), clock=clock), transport=transport, clock=clock
    )
    for key, options in (await printed_releases(server)).items():
        before = await world.state()
        text = await release_claim(connection, options, report=lambda _: None)
        after = await world.state()
        assert text == f"claim {'/'.join(key)}: released"
        assert not after.get(("resourceclaims", *key), {}).get("status", {}).get("allocation")
        assert not list(comparing.harms(before, after, about=("resourceclaims", *key), asked=key[0]))
