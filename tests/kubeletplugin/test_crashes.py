"""A crash at any step of any call is repaired by the next start and the kubelet's next try."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from kubeletplugin.contract import PrepareError
from kubeletplugin.prepared_claims import PreparedClaims
from kubeletplugin.steps import Leftover
from tests.kubeletplugin.crash_injection import CALLS, FILES, KillAtStep, Killed, raise_killed, run_and_raise, walk
from tests.kubeletplugin.fakes import FakeDriver, FakeNode, result

ROOT = Path(__file__).parents[2]

WALKED = {call: {step.name for step in steps} | FILES[call] for call, steps in CALLS.items()}


@pytest.mark.parametrize("call", CALLS)
def test_a_crash_at_any_step_is_repaired(call, tmp_path):
    assert set(walk(tmp_path, call, run_and_raise)) == WALKED[call]


def test_a_kill_by_the_kernel_at_any_step_is_repaired(tmp_path):
    program = [sys.executable, "-m", "tests.kubeletplugin.crash_injection", tmp_path]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    walked = {call: set(steps) for call, *steps in (line.split(",") for line in done.stdout.splitlines())}
    assert walked == WALKED


def test_the_documentation_has_each_step_with_what_a_crash_behind_it_leaves():
    page = (ROOT / "docs" / "design" / "kubelet-plugin.md").read_text(encoding="utf-8")
    rows = [
        f"| {call} | {step.name} | {_first_line(step.do)} | {_first_line(step.undo) or '–'} | {step.leaves.name} |"
        for call, steps in CALLS.items()
        if call != "again"
        for step in steps
    ]
    rows += [f"| `{leftover.name}` | {leftover.value} |" for leftover in Leftover]
    assert [row for row in rows if row not in page] == []


def _first_line(function):
    return (function.__doc__ or "").partition("\n")[0] if function is not None else ""


def disk_full(step):
    """Fail where a disk can."""
    if step.startswith(("checkpoint", "cdi")):
        raise OSError(28, "No space left on device")


FAULTS = st.none() | st.tuples(st.integers(0, 24), st.sampled_from([raise_killed, disk_full]))
INSTANCES = st.sampled_from(["old", "new"])
DEVICES = [f"gpu-{n}" for n in range(4)]


class Machine(FakeDriver):
    """What is enforced outlives the plugin, as cgroups do."""

    def __init__(self, state):
        super().__init__()
        self.state = state

    async def enforce(self, preparations):
        await asyncio.sleep(0)
        self.state.clear()
        self.state.update({each.claim.uid: each for each in preparations})


class Rollout(RuleBasedStateMachine):
    """A kubelet, two instances that share a folder, claims that may collide, and crashes and full disks anywhere."""

    claims = Bundle("claims")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rollout-"))
        self.node = FakeNode(self.folder)
        self.runner = asyncio.Runner()
        self.enforced = {}
        self.plugins = {}
        self.bombs = {}
        self.asked = set()
        """Claims that the kubelet has asked to prepare, and has no success of unprepare for."""
        self.granted = {}
        """Claims that pods run with."""
        self.unsure = set()
        """Claims whose unprepare failed: whether the checkpoint was replaced is not known."""
        self.repaired = False
        """Whether nothing has failed since the last complete start."""

    def teardown(self):
        self.runner.close()
        shutil.rmtree(self.folder)

    def run(self, awaitable):
        async def main():
            return await awaitable

        return self.runner.run(main())

    def plugin(self, name):
        if name not in self.plugins:
            self.start(name=name, fault=None)
        return self.plugins[name]

    def arm(self, name, fault):
        self.bombs[name].left, self.bombs[name].kill = fault or (-1, None)

    async def answers_of(self, name, call):
        """Return the answers, or None if the instance died; a fault that struck may leave things to repair."""
        before = self.bombs[name].left
        try:
            return await call
        except Killed:
            del self.plugins[name]
            return None
        finally:
            if before >= 0 > self.bombs[name].left:
                self.repaired = False
            self.arm(name, None)

    @initialize()
    def begin(self):
        self.start(name="old", fault=None)

    @rule(name=INSTANCES, fault=FAULTS)
    def start(self, name, fault):
        self.bombs[name] = KillAtStep(-1, None)
        self.plugins[name] = self.node.instance(behind_step=self.bombs[name], driver=Machine(self.enforced))
        self.arm(name, fault)
        self.repaired = True
        self.run(self.answers_of(name, self.plugins[name].recover()))

    @rule(name=INSTANCES)
    def kill(self, name):
        self.plugins.pop(name, None)

    @rule()
    def reboot(self):
        """What lies in memory is gone; the kubelet knows what it knew and asks again for pods that start anew."""
        self.plugins.clear()
        self.enforced.clear()
        self.granted.clear()
        shutil.rmtree(self.node.cdi.folder, ignore_errors=True)
        self.repaired = False

    @rule(
        target=claims,
        name=st.sampled_from("abcdef"),
        devices=st.lists(st.sampled_from(DEVICES), min_size=1, max_size=2, unique=True),
        share=st.sampled_from([None, None, "x", "y"]),
        admin=st.sampled_from([None, None, None, True]),
    )
    def allocate(self, name, devices, share, admin):
        """A claim gets devices; whether they are free is not what this scheduler asks."""
        uid = f"uid-{name}"
        if uid in self.node.claims.requests:
            return self.node.claims.requests[uid].claim
        return self.node.claims.allocate(name, *(result(d, share=share, admin=admin) for d in devices))

    @rule(name=INSTANCES, batch=st.lists(claims, min_size=1, max_size=3), fault=FAULTS)
    def prepare(self, name, batch, fault):
        plugin = self.plugin(name)
        self.arm(name, fault)
        self.note_prepared(batch, self.run(self.answers_of(name, plugin.prepare(batch))))

    @rule(name=INSTANCES, batch=st.lists(claims, min_size=1, max_size=3), fault=FAULTS)
    def unprepare(self, name, batch, fault):
        plugin = self.plugin(name)
        self.arm(name, fault)
        self.note_unprepared(batch, self.run(self.answers_of(name, plugin.unprepare(batch))))

    @rule(claim_in=claims, claim_out=claims, faults=st.tuples(FAULTS, FAULTS))
    def both_at_once(self, claim_in, claim_out, faults):
        """The kubelet asks the old instance to unprepare while the new one prepares."""
        if claim_in == claim_out:
            return
        old, new = self.plugin("old"), self.plugin("new")
        self.arm("old", faults[0])
        self.arm("new", faults[1])

        async def both():
            return await asyncio.gather(
                self.answers_of("old", old.unprepare([claim_out])), self.answers_of("new", new.prepare([claim_in]))
            )

        unprepared, prepared = self.run(both())
        self.note_unprepared([claim_out], unprepared)
        self.note_prepared([claim_in], prepared)

    def note_prepared(self, batch, answers):
        self.asked.update(each.uid for each in batch)
        if answers is None:
            return
        assert set(answers) == {each.uid for each in batch}
        files = self.node.cdi.uids()
        for uid, answer in answers.items():
            if not isinstance(answer, PrepareError):
                assert {d.device for d in answer.devices} == {r.device for r in self.node.claims.requests[uid].results}
                assert uid in files
                self.granted[uid] = answer

    def note_unprepared(self, batch, answers):
        for each in batch:
            self.granted.pop(each.uid, None)
        if answers is None:
            return
        assert set(answers) == {each.uid for each in batch}
        gone = {uid for uid, answer in answers.items() if answer is None}
        self.asked -= gone
        self.unsure = (self.unsure | set(answers)) - gone

    @invariant()
    def nothing_twice(self):
        PreparedClaims(self.node.remembered.values())
        PreparedClaims(self.granted.values())

    @invariant()
    def nothing_forgotten(self):
        remembered = self.node.remembered
        assert all(remembered.get(uid) == granted for uid, granted in self.granted.items())
        assert set(self.granted) <= set(self.enforced)

    @invariant()
    def nothing_leaked(self):
        assert set(self.node.remembered) <= self.asked

    @invariant()
    def no_file_without_a_preparation(self):
        assert self.node.cdi.uids() <= set(self.node.remembered) | self.unsure

    @invariant()
    def no_file_missing_and_none_too_many(self):
        if self.repaired:
            assert self.node.cdi.uids() == set(self.node.remembered)


Rollout.TestCase.settings = settings(stateful_step_count=25)
test_a_rolling_update_with_crashes_and_full_disks = Rollout.TestCase
