"""Reboots, reloads, dying cards, moving minors, missing files, older builds and crashes at any step, in any order.

Whatever has happened: containers get exactly the card that was published under the claim's device when it was
allocated, and files that exist; or the claim is refused. And a claim whose card is there and in order is not refused.
"""

import asyncio
import contextlib
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.contract import PrepareError
from tests.kubeletplugin.crash_injection import KillAtStep, Killed, raise_killed
from tests.kubeletplugin.drivers.gpu.gpu_nodes import GpuNode, published, taints

SLOTS = tuple(f"0000:{number:02x}:00.0" for number in (0x17, 0x65, 0xB1, 0xCA))
UUIDS = tuple(f"GPU-{letter * 4}" for letter in "abcdef")

HARDWARE = st.builds(
    lambda count, slots, uuids: dict(zip(slots[:count], uuids, strict=False)),
    st.integers(0, len(SLOTS)),
    st.permutations(SLOTS),  # also the order of minors
    st.permutations(UUIDS),
)
GOOD = ("nvidiactl", "nvidia-uvm")
FILES = st.fixed_dictionaries(
    {
        "library_version": st.sampled_from([""] * 7 + ["580.1.1"]),
        "nodes": st.sampled_from([GOOD] * 6 + [GOOD[:1], ()]),
    },
    optional={
        "version": st.sampled_from(["570.10.1", "575.20.2"]),
        "libraries": st.sampled_from(["usr/lib64", "run/opengl-driver/lib", "var/lib/nvidia/lib64"]),
        "hook": st.sampled_from(["", "usr/bin/nvidia-ctk", "usr/local/nvidia/toolkit/nvidia-cdi-hook"]),
    },
)
NAMES = st.sampled_from("pqr")
FAULTS = st.none() | st.integers(0, 14)


class Reboots:
    """A scheduler that allocates published devices, a kubelet that prepares claims, and a node that changes."""

    def __init__(self, folder, inventory):
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
        """Whether the plugin has looked at all claims since the node has changed."""
        self.machine = GpuNode(folder, cards=dict(zip(SLOTS, UUIDS, strict=False)), inventory=inventory).boot()
        self.start(fault=None)

    def run(self, awaitable):
        async def main():
            return await awaitable

        return self.runner.run(main())

    @property
    def in_order(self):
        """Whether the driver's files are such that containers can use GPUs."""
        return not self.machine.library_version and {"nvidiactl", "nvidia-uvm"} <= set(self.machine.nodes)

    def start(self, fault):
        """Start the plugin; after a start without a fault the devices are published."""
        self.bomb = KillAtStep(-1 if fault is None else fault, raise_killed)
        self.driver = self.machine.driver()
        self.plugin = self.machine.instance(self.driver, behind_step=self.bomb)
        if self.answers_of(self.plugin.recover()) is not None:
            self.settled = True
            self.publish()

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
        return answers if answers is not None else {}

    def running(self, fault):
        """Start the plugin if it is dead, and arm a fault."""
        if self.plugin is None:
            self.start(fault=None)
        self.bomb.left = -1 if fault is None else fault

    def reboot(self, hardware, files, starts):
        self.machine.boot(**files, **({} if hardware is None else {"cards": hardware}))
        self.granted.clear()
        self.plugin, self.settled = None, False
        if starts:
            self.start(fault=None)
            for uid in sorted(self.allocated):  # the kubelet starts all pods again
                self.prepare(name=uid.removeprefix("uid-"), choice=0, fault=None)

    def reload(self, hardware, files):
        """The driver is loaded again while pods run; the plugin may run or not."""
        self.machine.load(**files, **({} if hardware is None else {"cards": hardware}))
        self.settled = False

    def allocate(self, name, choice):
        """The scheduler, which knows what was published last, allocates a free device."""
        requests = self.machine.node.claims.requests
        held = {result.device for uid in self.allocated for result in requests[uid].results}
        free = sorted(set(self.published) - held - self.tainted)
        if f"uid-{name}" not in self.allocated and free:
            device = free[choice % len(free)]
            claim = self.machine.node.claims.allocate(name, device)
            self.allocated[claim.uid] = self.published[device]

    def prepare(self, name, choice, fault):
        """A pod of the claim starts; the scheduler allocates the claim before."""
        self.running(fault)
        self.allocate(name=name, choice=choice)
        uid = f"uid-{name}"
        if uid not in self.allocated:
            return
        claim = self.machine.node.claims.requests[uid].claim
        self.unclean.add(uid)
        answers = self.answers_of(self.plugin.prepare([claim]))
        if answers is None:
            return
        uuid, answer = self.allocated[uid], answers[uid]
        if isinstance(answer, PrepareError):
            assert str(answer).startswith("claim ml/")
            assert not (self.in_order and uuid in self.machine.cards.values()), answer
            self.granted.discard(uid)
        else:
            assert self.machine.given(self.machine.spec(claim)) == [uuid]
            self.granted.add(uid)

    def unprepare(self, name, fault):
        """The claim's pods have ended, and the claim is deallocated once its devices are unprepared."""
        uid = f"uid-{name}"
        if uid not in self.unclean:
            return
        self.running(fault)
        answers = self.answers_of(self.plugin.unprepare([self.machine.node.claims.requests[uid].claim]))
        self.granted.discard(uid)
        if answers is not None:
            assert answers == {uid: None}
            self.unclean.discard(uid)
            self.allocated.pop(uid, None)

    def reconcile(self, fault):
        self.running(fault)
        self.settled = self.answers_of(self.plugin.reconcile()) is not None

    def older_build(self):
        """An older build writes the checkpoint, without what it does not know."""
        if self.machine.node.checkpoint.exists():
            self.machine.forget_identities()

    def verify(self):
        """A container that starts gets its own card or none, no card is given twice, and no claim is forgotten."""
        if self.plugin is not None and self.settled:
            requests = self.machine.node.claims.requests
            for uid in self.machine.node.cdi.uids():
                assert self.machine.given(self.machine.spec(requests[uid].claim)) == [self.allocated[uid]]
        uuids = [self.allocated[uid] for uid in self.granted]
        assert len(uuids) == len(set(uuids))
        remembered = set(self.machine.node.remembered)
        assert self.granted <= remembered <= self.unclean


def calls(method, **arguments):
    return st.tuples(st.just(method), st.fixed_dictionaries(arguments))


PREPARES = calls(Reboots.prepare, name=NAMES, choice=st.integers(0, 9), fault=FAULTS)
ALLOCATES = calls(Reboots.allocate, name=NAMES, choice=st.integers(0, 9))
CHANGES = {"hardware": st.none() | HARDWARE | HARDWARE, "files": FILES}
REBOOTS = calls(Reboots.reboot, starts=st.booleans(), **CHANGES)
STEPS = st.one_of(
    PREPARES,
    PREPARES,
    PREPARES,
    ALLOCATES,
    ALLOCATES,
    REBOOTS,
    REBOOTS,
    calls(Reboots.reload, **CHANGES),
    calls(Reboots.reconcile, fault=FAULTS),
    calls(Reboots.start, fault=FAULTS),
    calls(Reboots.unprepare, name=NAMES, fault=FAULTS),
    calls(Reboots.older_build),
    calls(Reboots.publish),
)


@given(inventory=st.sampled_from(["sysfs", "nvml"]), steps=st.lists(STEPS, min_size=14, max_size=24))
def test_a_claim_has_its_own_card_or_is_refused(inventory, steps):
    with tempfile.TemporaryDirectory(prefix="reboots-") as folder:
        reboots = Reboots(Path(folder), inventory)
        with contextlib.closing(reboots.runner):
            for step, arguments in steps:
                step(reboots, **arguments)
                reboots.verify()
