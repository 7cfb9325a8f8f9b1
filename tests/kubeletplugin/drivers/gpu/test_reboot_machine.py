"""Reboots, reloads, dying cards, moving minors, missing files, older builds and crashes at any step, in any order.

Whatever has happened: containers get exactly the card that was published under the claim's device when it was
allocated, and files that exist; or the claim is refused. And a claim whose card is there and in order is not refused.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from kubeletplugin.contract import PrepareError
from tests.kubeletplugin.crash_injection import KillAtStep, Killed, raise_killed
from tests.kubeletplugin.drivers.gpu.gpu_nodes import GpuNode, published, taints

SLOTS = tuple(f"0000:{number:02x}:00.0" for number in (0x17, 0x65, 0xB1, 0xCA))
UUIDS = tuple(f"GPU-{letter * 4}" for letter in "abcdef")

HARDWARE = st.builds(
    lambda slots, uuids: dict(zip(slots, uuids, strict=False)),
    st.permutations(SLOTS),  # also the order of minors
    st.lists(st.sampled_from(UUIDS), max_size=4, unique=True),
)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from(["570.10.1", "575.20.2"]),
        "library_version": st.sampled_from(["", "", "", "580.1.1"]),
        "libraries": st.sampled_from(["usr/lib64", "run/opengl-driver/lib", "var/lib/nvidia/lib64"]),
        "hook": st.sampled_from(["", "usr/bin/nvidia-ctk", "usr/local/nvidia/toolkit/nvidia-cdi-hook"]),
        "nodes": st.sampled_from([("nvidiactl", "nvidia-uvm")] * 3 + [("nvidiactl",), ()]),
    },
)
FAULTS = st.none() | st.integers(0, 14)


class Reboots(RuleBasedStateMachine):
    """A scheduler that allocates published devices, a kubelet that prepares claims, and a node that changes."""

    claims = Bundle("claims")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="reboots-"))
        self.runner = asyncio.Runner()
        self.published: dict[str, str] = {}
        """Uuids by device name, as the API server has them."""
        self.allocated: dict[str, str] = {}
        """Uuid of the GPU that the scheduler meant, by uid of the claim."""
        self.granted: set[str] = set()
        """Claims that the kubelet has successfully prepared since the node started."""
        self.unclean: set[str] = set()
        """Claims that the kubelet has to unprepare before it forgets them."""
        self.settled = False
        """Whether the plugin has looked at the node since the last change."""

    def teardown(self):
        self.runner.close()
        shutil.rmtree(self.folder)

    def run(self, awaitable):
        async def main():
            return await awaitable

        return self.runner.run(main())

    @initialize()
    def begin(self):
        self.machine = GpuNode(self.folder, cards=dict(zip(SLOTS, UUIDS, strict=False)))
        self.machine.boot()
        self.start(fault=None)

    @property
    def in_order(self):
        """Whether the driver's files are such that containers can use GPUs."""
        return not self.machine.library_version and {"nvidiactl", "nvidia-uvm"} <= set(self.machine.nodes)

    @rule(fault=FAULTS)
    def start(self, fault):
        """Start the plugin; after a start without a fault the devices are published."""
        self.bomb = KillAtStep(-1 if fault is None else fault, raise_killed)
        self.driver = self.machine.driver()
        self.plugin = self.machine.instance(self.driver, observe_step=self.bomb)
        if self.answers_of(self.plugin.recover()) is not None:
            self.publish()

    @rule()
    def publish(self):
        if self.plugin is not None:
            self.published = published(self.driver)
            self.tainted = {name for name, keys in taints(self.driver).items() if keys}

    def answers_of(self, call):
        """Return the answers, or None if the plugin died."""
        try:
            answers = self.run(call)
        except Killed:
            self.run(self.plugin.wait_idle())
            self.plugin = None
            return None
        self.bomb.left = -1
        self.settled = True
        return answers if answers is not None else {}

    def running(self, fault):
        """Start the plugin if it is dead, and arm a fault."""
        if self.plugin is None:
            self.start(fault=None)
        self.bomb.left = -1 if fault is None else fault

    @rule(hardware=st.none() | HARDWARE, files=FILES, starts=st.booleans())
    def reboot(self, hardware, files, starts):
        self.machine.boot(**files, **({} if hardware is None else {"cards": hardware}))
        self.granted.clear()
        self.plugin, self.settled = None, False
        if starts:
            self.start(fault=None)

    @rule(hardware=st.none() | HARDWARE, files=FILES, reconciles=st.booleans())
    def reload(self, hardware, files, reconciles):
        """The driver is loaded again while pods run; the plugin may run or not."""
        self.machine.load(**files, **({} if hardware is None else {"cards": hardware}))
        self.settled = False
        if reconciles:
            self.reconcile(fault=None)

    @rule(target=claims, name=st.sampled_from("pqrst"), devices=st.data(), starts=st.booleans())
    def allocate(self, name, devices, starts):
        """The scheduler, which knows what was published last, allocates a free device; a pod may start at once."""
        held = {
            result.device
            for uid, request in self.machine.node.claims.requests.items()
            if uid in self.allocated
            for result in request.results
        }
        free = sorted(set(self.published) - held - self.tainted)
        if f"uid-{name}" in self.allocated or not free:
            return multiple()
        device = devices.draw(st.sampled_from(free))
        claim = self.machine.node.claims.allocate(name, device)
        self.allocated[claim.uid] = self.published[device]
        if starts:
            self.prepare(claim=claim, fault=None)
        return claim

    @rule(claim=claims, fault=FAULTS)
    def prepare(self, claim, fault):
        if claim.uid not in self.allocated:
            return
        self.running(fault)
        self.unclean.add(claim.uid)
        answers = self.answers_of(self.plugin.prepare([claim]))
        if answers is None:
            return
        uuid, answer = self.allocated[claim.uid], answers[claim.uid]
        if isinstance(answer, PrepareError):
            assert str(answer).startswith(f"claim {'/'.join(claim.key)}")
            assert not (self.in_order and uuid in self.machine.cards.values()), answer
            self.granted.discard(claim.uid)
        else:
            assert self.machine.given(self.machine.spec(claim)) == [uuid]
            self.granted.add(claim.uid)

    @rule(claim=claims, fault=FAULTS)
    def unprepare(self, claim, fault):
        """The claim's pods have ended, and the claim is deallocated once its devices are unprepared."""
        self.running(fault)
        answers = self.answers_of(self.plugin.unprepare([claim]))
        self.granted.discard(claim.uid)
        if answers is not None:
            assert answers == {claim.uid: None}
            self.unclean.discard(claim.uid)
            self.allocated.pop(claim.uid, None)

    @rule(fault=FAULTS)
    def reconcile(self, fault):
        self.running(fault)
        self.answers_of(self.plugin.reconcile())

    @rule()
    def older_build(self):
        """An older build writes the checkpoint, without what it does not know."""
        if self.machine.node.checkpoint.exists():
            self.machine.forget_identities()

    @invariant()
    def a_container_that_starts_gets_its_own_card_or_none(self):
        if self.plugin is None or not self.settled:
            return
        requests = self.machine.node.claims.requests
        for uid in self.machine.node.cdi.uids():
            assert self.machine.given(self.machine.spec(requests[uid].claim)) == [self.allocated[uid]]

    @invariant()
    def no_card_is_held_twice(self):
        if self.settled:
            uuids = [self.allocated[uid] for uid in self.granted]
            assert len(uuids) == len(set(uuids))

    @invariant()
    def no_claim_is_forgotten(self):
        remembered = set(self.machine.node.remembered)
        assert self.granted <= remembered <= self.unclean


Reboots.TestCase.settings = settings(max_examples=max(1, settings.default.max_examples // 2), stateful_step_count=25)
test_a_claim_has_its_own_card_or_is_refused = Reboots.TestCase
