"""Each command that is printed about a generated world is run there, and harms nothing.

kubectl itself runs them, on a server of ours over HTTP: at once, which repairs what they were printed for, and once
more when the world has moved on, as somebody does who pastes a line from an hour ago.

ADVICE_WORLDS says how many worlds, ADVICE_SEED from which number on; both are printed. Without
ADVICE_SEED each run plays other worlds.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections import Counter
from random import Random
from typing import Any, Final

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.diagnosis import problem_texts
from dra.cli.kubectl.diagnosis.problem_texts import PROBLEM_TEXTS
from dra.cli.kubectl.diagnosis.problem_wording import ProblemText
from dra.cli.kubectl.main import main
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.remedies import SafeCommand, changing_commands
from localplane.https_server import serve_https
from localplane.server import ApiServer
from tests.advice import asking, comparing
from tests.advice.asking import Printed
from tests.advice.worlds import World
from tests.seeds import first_seed

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")

WORLDS: Final = int(os.environ.get("ADVICE_WORLDS", "6"))
SEED: Final = first_seed("ADVICE_SEED")

TOTAL: Final[Counter[str]] = Counter()
"""What all worlds came to; printed at the end of the run."""


class Play:
    """A world, the commands that were run in it, and what they did."""

    def __init__(self, world: World, kubeconfig: Any) -> None:
        self.world = world
        self.kubeconfig = kubeconfig
        self.harmful: list[str] = []
        self.unrepaired: list[str] = []
        self.count: Counter[str] = Counter()

    async def play(self) -> None:
        """Paste everything once at once, and once late."""
        late = asking.printed(await asking.snapshot(self.world.server))
        self.count["commands"] += len(late)
        done: set[tuple[str, str]] = set()
        while fresh := await self._fresh(done):
            done.add((fresh.command, fresh.asked))
            if await self.paste(fresh) and changing_commands(fresh.command) and await self._still(fresh):
                self.unrepaired.append(f"{fresh.trouble}: {fresh.command}")
        await moves_on(self.world)
        for each in {each.command: each for each in late}.values():
            await self.paste(each)

    async def _fresh(self, done: set[tuple[str, str]]) -> Printed | None:
        found = asking.printed(await asking.snapshot(self.world.server))
        return next((each for each in found if (each.command, each.asked) not in done), None)

    async def _still(self, what: Printed) -> bool:
        found = asking.printed(await asking.snapshot(self.world.server))
        return any((each.trouble, each.about) == (what.trouble, what.about) for each in found)

    async def paste(self, what: Printed) -> bool:
        """Run a command, and compare; return whether it says that it has done its work."""
        before = await self.world.state()
        code = await self._run(what.command)
        after = await self.world.state()
        self.count["run"] += 1
        self.count[what.trouble] += 1
        self.count["changed"] += before != after
        named = {("pods", what.asked, word.removeprefix("pod/")) for word in what.command.split() if "pod/" in word}
        harms = comparing.harms(before, after, about=what.about, asked=what.asked, named=named)
        self.harmful += [f"{what.trouble}: {what.command}: {harm}" for harm in harms]
        return code == 0

    async def _run(self, command: str) -> int:
        program, *arguments = shlex.split(command)
        assert program == "kubectl" or " | kubectl " in command, command
        if program == "kubectl" and arguments[0] == "dra":
            limit = ["--timeout=0s"] if arguments[1] in {"release", "wait"} else []
            words = [*arguments[1:], *limit, f"--kubeconfig={self.kubeconfig}"]
            done = await asyncio.to_thread(CliRunner().invoke, main, words)
            assert done.exit_code in {0, 1, 2}, f"{command}: {done.output}{done.exception!r}"
            return done.exit_code
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            command,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": f"{self.kubeconfig}.cache"},
        )
        return await asyncio.wait_for(process.wait(), 60)


async def moves_on(world: World) -> None:
    """Let time pass: pods that waited or were starting run, claims without devices get some, gone pods come again."""
    state = await world.state()
    chance = Random(len(state))  # noqa: S311 - no secret
    for (resource, namespace, name), found in state.items():
        if resource == "pods" and not found["metadata"].get("deletionTimestamp"):
            ready = {"type": "PodReadyToStartContainers", "status": "True"}
            phase = found["status"].get("phase", "Pending")
            if phase == "Pending" and found["spec"].get("nodeName"):
                status = {"phase": "Running", "conditions": [ready]}
                await world.patch(resource, namespace, name, {"status": status}, subresource="status")
        if resource == "resourceclaims" and not found["metadata"].get("deletionTimestamp"):
            if not found.get("status", {}).get("allocation"):
                status = {"allocation": world._allocation()}
                await world.patch(resource, namespace, name, {"status": status}, subresource="status")
            if chance.random() < 0.7:
                spec = {
                    "nodeName": "n1",
                    "containers": [{"name": "main", "image": "x"}],
                    "resourceClaims": [{"name": "r", "resourceClaimName": name}],
                }
                late = f"late-{name}"
                if ("pods", namespace, late) not in state:
                    await world.create("pods", namespace, {"metadata": {"name": late}, "spec": spec})
                    ready = {"type": "PodReadyToStartContainers", "status": "True"}
                    status = {"phase": "Running", "conditions": [ready]}
                    await world.patch("pods", namespace, late, {"status": status}, subresource="status")


async def played(folder: Any, seed: int) -> Play:
    server = ApiServer()
    world = World(server, seed)
    await world.make()
    async with serve_https(server.handle, folder=folder) as endpoint:
        play = Play(world, endpoint.kubeconfig)
        await play.play()
        return play


@pytest.mark.parametrize("seed", range(SEED, SEED + WORLDS))
async def test_what_is_printed_to_be_pasted_harms_nothing_and_repairs(tmp_path, seed):
    play = await played(tmp_path, seed)
    TOTAL.update(play.count)
    TOTAL["worlds"] += 1
    assert play.harmful == []
    assert play.unrepaired == []


PLANTED: Final = {
    ProblemCode.NODE_CORDONED: "kubectl uncordon {nodes}",
    ProblemCode.RELEASE_WAITS: "kubectl delete pod -n {namespace} --wait=false {pods}",
    ProblemCode.KEPT_BY_OTHERS: "kubectl patch resourceclaim -n {namespace} {name} --subresource=status --type=merge "
    '-p \'{{"status":{{"reservedFor":null,"allocation":null}}}}\'',
    ProblemCode.WORKLOAD_NOT_FOUND: "kubectl annotate resourceclaim -n {namespace} {name} reserve.dra/reserved-for-",
    ProblemCode.UNLISTED: "kubectl delete pod -n {namespace} {name} --wait=false",
    ProblemCode.MALFORMED: "kubectl annotate resourceclaim -n {namespace} {name} reserve.dra/reserved-for-",
    ProblemCode.FINALIZER_LEFT: "kubectl label resourceclaim -n {namespace} {name} team-",
}


@pytest.mark.parametrize("trouble", PLANTED, ids=str)
async def test_a_planted_remedy_that_harms_is_found(tmp_path, monkeypatch, trouble):
    planted = {**PROBLEM_TEXTS, trouble: ProblemText(PROBLEM_TEXTS[trouble].text, SafeCommand(PLANTED[trouble]))}
    monkeypatch.setattr(problem_texts, "PROBLEM_TEXTS", planted)
    for seed in range(1, 150):
        folder = tmp_path / str(seed)
        folder.mkdir()
        server = ApiServer()
        world = World(server, seed)
        await world.make()
        found = [each for each in asking.printed(await asking.snapshot(server)) if each.trouble == trouble]
        if not found:
            continue
        async with serve_https(server.handle, folder=folder) as endpoint:
            play = Play(world, endpoint.kubeconfig)
            await moves_on(world) if trouble is ProblemCode.UNLISTED else None
            for each in found:
                await play.paste(each)
        if play.harmful:
            return
    pytest.fail(f"nobody was harmed by {PLANTED[trouble]}")
