"""What `downgrade` and `adopt` print to be pasted is run in generated worlds, and compared: nothing that works ends.

The commands are taken from the text, and parsed as a shell and the program would.
"""

import os
import re
import shlex

import click
import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.declarations import installation
from dra.cli.kubectl.downgrade import adopt, cluster_checks, command
from dra.cli.kubectl.downgrade.cluster_checks import DowngradeCheckOptions
from dra.cli.kubectl.print_flags import PrintOptions
from dra.engine.messages.remedies import changing_commands
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.advice import comparing
from tests.advice.worlds import World
from tests.dra.kube.virtual import LoopClock, seeded
from tests.seeds import first_seed

WORLDS = int(os.environ.get("ADVICE_WORLDS", "6"))
FIRST = first_seed("ADVICE_SEED")


class Asker:
    """Somebody who asks, and pastes what is printed."""

    def __init__(self, server, clock):
        transport = LocalTransport(server)
        client = Client(transport, RateLimiter(1e6, 1e6, clock=clock), clock=clock)
        self.connection = Connection(client=client, transport=transport, clock=clock)

    async def ask(self, line):
        """Run a command line; return what it prints."""
        program, plugin, name, *arguments = shlex.split(line)
        assert (program, plugin) == ("kubectl", "dra")
        if name == "adopt":
            asked = parsed(installation.adopt, arguments)
            options = adopt.AdoptOptions(
                lease=(asked["lease_namespace"], asked["lease_name"]), timeout=2.0, dry_run=False
            )
            return str(await adopt.run_adopt(self.connection, options))
        assert name == "downgrade"
        asked = parsed(installation.downgrade, arguments)
        lease = (asked["lease_namespace"], asked["lease_name"])
        given = cluster_checks.repeated_flags(namespace=asked["namespace"], lease=lease)
        checks = DowngradeCheckOptions(lease=lease, purge=asked["purge"], repeated_flags=given)
        options = command.DowngradeOptions(
            checks=checks, namespace=asked["namespace"], given_up=asked["given_up"], apply=asked["apply"]
        )
        return command._format_report(await command._run(self.connection, options), PrintOptions(), given)


def parsed(what, arguments):
    with click.Context(
        what, help_option_names=["-h", "--help"]
    ) as context:  # as main has; click keeps the first for good
        what.parse_args(context, list(arguments))
        return context.params


@pytest.mark.parametrize("seed", range(FIRST, FIRST + WORLDS))
@pytest.mark.parametrize("asked", ["kubectl dra downgrade", "kubectl dra downgrade -n ml"])
async def test_what_a_downgrade_prints_ends_nothing_that_works_and_comes_back(capsys, asked, seed):
    clock = LoopClock()
    server = ApiServer(clock=clock, random=seeded(seed))
    world = World(server, seed)
    await world.make()
    asker = Asker(server, clock)
    printed = list(dict.fromkeys(each.strip() for each in changing_commands(await asker.ask(asked))))
    assert len(printed) <= 1, printed  # one command does all that a command can do
    for line in printed:
        before = await world.state()
        left = await asker.ask(line)
        found = harms(before, await world.state(), namespace="ml" if "-n ml" in asked else "")
        assert not found, (line, found)
        assert line not in left, "what was printed has been done"
        back = re.findall(r"to re-enable them: (.*)", capsys.readouterr().err)
        before = await world.state()
        for each in back:
            await asker.ask(each)
        assert not harms(before, await world.state(), namespace="dra-reserve")


def harms(before, after, *, namespace):
    """Return the harm done, and whatever changed outside of the namespace that was asked about.

    The lease of our controllers is what both commands are about.
    """
    then, now = ({name: each for name, each in found.items() if name[0] != "leases"} for found in (before, after))
    found = list(comparing.harms(then, now, about=("", "", ""), asked="", consequences=True))
    touched = {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)}
    return found + [f"{name} has changed" for name in sorted(touched) if namespace and name[1] != namespace]


async def test_a_printed_command_that_reaches_further_than_the_question_is_found(monkeypatch):
    monkeypatch.setattr(cluster_checks, "repeated_flags", lambda **_: "")
    for seed in range(1, 30):
        clock = LoopClock()
        server = ApiServer(clock=clock, random=seeded(seed))
        world = World(server, seed)
        await world.make()
        asker = Asker(server, clock)
        printed = {each.strip() for each in changing_commands(await asker.ask("kubectl dra downgrade -n ml"))}
        before = await world.state()
        for line in printed:
            await asker.ask(line)
        if harms(before, await world.state(), namespace="ml"):
            return
    pytest.fail("claims of other namespaces were converted, and nobody saw it")


async def test_options_that_were_given_are_in_the_command_that_is_printed():
    """The pasted command was about all namespaces, and about the lease of another installation."""
    clock = LoopClock()
    server = ApiServer(clock=clock, random=seeded(1))
    world = World(server, 7)
    await world.make()
    line = "kubectl dra downgrade -n ml --lease-namespace web --lease-name ours"
    (printed,) = {each.strip() for each in changing_commands(await Asker(server, clock).ask(line))}
    assert printed == "kubectl dra downgrade --apply -n ml --lease-namespace web --lease-name ours"
