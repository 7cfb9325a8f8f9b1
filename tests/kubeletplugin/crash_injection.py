"""Kills the plugin behind each step of a call: what is left is what the step says, and the next call goes on with it.

`walk` is told how to be killed. As a program it is by SIGKILL, in a child process for each step, and prints the steps:
``python -m tests.kubeletplugin.crash_injection FOLDER``.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from kubeletplugin import claim_preparer
from kubeletplugin.atomic_files import REPLACEMENT
from kubeletplugin.contract import PrepareError
from kubeletplugin.inspection_steps import RECONCILE, RECOVER
from kubeletplugin.prepare_steps import PREPARE
from kubeletplugin.prepared_claims import PreparedClaims
from kubeletplugin.steps import Leftover
from kubeletplugin.unprepare_steps import UNPREPARE
from tests.kubeletplugin.fakes import FakeDriver, FakeNode

CALLS = {
    "prepare": PREPARE,
    "again": PREPARE,
    "unprepare": UNPREPARE,
    "recover": RECOVER,
    "reconcile": RECONCILE,
}
"""The steps of each call; *again* prepares what is prepared."""

_CHECKPOINT, _CDI = ({f"{file} {step.name}" for step in REPLACEMENT} for file in ("checkpoint", "cdi"))
FILES = {
    "prepare": _CHECKPOINT | _CDI,
    "again": _CDI,
    "unprepare": _CHECKPOINT | {"cdi removed"},
    "recover": _CDI | {"cdi removed"},
    "reconcile": _CDI,
}
"""What each call does to files, within its steps."""


class Killed(BaseException):
    """As SIGKILL: nothing that handles errors handles this."""


class KillAtStep:
    """Kills behind the nth step, counted from 0."""

    def __init__(self, at, kill):
        self.left = at
        self.kill = kill
        self.seen = []

    def __call__(self, step):
        self.seen.append(step)
        if self.left == 0:
            self.left = -1
            self.kill(step)
        self.left -= 1


def raise_killed(step):
    raise Killed(step)


class Scene:
    """A node on which one claim is prepared already, and two more are at stake."""

    def __init__(self, folder):
        folder.mkdir()
        self.node = FakeNode(folder)
        self.other = self.node.claims.allocate("other", "gpu-9")
        self.stake = [self.node.claims.allocate("a", "gpu-0", "gpu-1"), self.node.claims.allocate("b", "gpu-2")]

    async def before(self, call):
        plugin = self.node.instance()
        await plugin.prepare([self.other] if call == "prepare" else [self.other, *self.stake])
        if call in ("again", "recover", "reconcile"):
            for path in self.node.cdi.folder.iterdir():
                path.unlink()  # rebooted
            self.node.cdi.path("orphan").write_text("{}")

    async def run(self, call, behind_step):
        """Make the call with an instance that can be killed."""
        plugin = self.node.instance(behind_step=behind_step, sync=True)
        if call in ("recover", "reconcile"):
            await getattr(plugin, call)()
            return {}
        return await (plugin.unprepare if call == "unprepare" else plugin.prepare)(self.stake)

    @property
    def leftover(self):
        """What there is of the claims at stake, which is the same for all."""
        stake = {claim.uid for claim in self.stake}
        records, specs = stake & set(self.node.remembered), stake & self.node.cdi.uids()
        return {(0, 0): Leftover.NOTHING, (2, 0): Leftover.RECORD, (2, 2): Leftover.RECORD_AND_SPEC}[
            len(records), len(specs)
        ]

    async def after(self, call):
        """Start anew, try again, and look at everything."""
        driver = FakeDriver()
        plugin = self.node.instance(driver=driver)
        await plugin.recover()
        remembered = self.node.remembered
        assert self.node.cdi.uids() == set(remembered) == set(driver.enforced)
        PreparedClaims(remembered.values())
        assert {path.suffix for path in self.node.cdi.folder.iterdir()} == {".json"}
        if call not in ("recover", "reconcile"):
            answers = await (plugin.unprepare if call == "unprepare" else plugin.prepare)(self.stake)
            assert not [answer for answer in answers.values() if isinstance(answer, PrepareError)]
        left = [self.other] if call == "unprepare" else [self.other, *self.stake]
        assert set(self.node.remembered) == {c.uid for c in left} == self.node.cdi.uids() == set(driver.enforced)
        self.node.claims.allocate("next", "gpu-0")
        answers = await plugin.prepare([self.node.claims.requests["uid-next"].claim])
        assert isinstance(answers["uid-next"], PrepareError) == (call != "unprepare")


def run_and_raise(scene, call, at):
    """Run until killed in this process; return the step, or None if the call came to its end before."""
    bomb = KillAtStep(at, raise_killed)
    try:
        asyncio.run(scene.run(call, bomb))
    except Killed:
        return bomb.seen[-1]
    return None


def run_and_sigkill(scene, call, at):
    """Do so in a child, by SIGKILL."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:

        def kill(step):
            os.write(writing, step.encode())
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(scene.run(call, KillAtStep(at, kill)))
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    step = os.read(reading, 100).decode()
    os.close(reading)
    if not os.WIFSIGNALED(status):
        assert (os.WEXITSTATUS(status), step) == (0, ""), f"the child ended with {status} at {step!r}"
        return None
    assert step
    return step


def walk(folder, call, killed):
    """Kill the call at each of its steps in turn; return the steps."""
    steps = []
    step = ""
    while step is not None:
        at = len(steps)
        scene = Scene(folder / f"{call}-{at}")
        asyncio.run(scene.before(call))
        step = killed(scene, call, at)
        try:
            if call != "again":  # whose claims are prepared before the first step
                assert all(scene.leftover is known.leaves for known in CALLS[call] if known.name == step)
            asyncio.run(scene.after(call))
        except AssertionError as error:
            raise AssertionError(f"{call}, killed at step {at} ({step}): {error}") from error
        steps.append(step)
    return [str(each) for each in steps[:-1]]


if __name__ == "__main__":
    claim_preparer.HANDOVER_TIMEOUT = 0.0
    for each in CALLS:
        print(each, *walk(Path(sys.argv[1]), each, run_and_sigkill), sep=",")  # noqa: T201 - a program
