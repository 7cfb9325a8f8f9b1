"""A driver of devices that are only names, claims that are only dictionaries, and a node made of both."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Uid
from kubeletplugin.atomic_files import REPLACEMENT
from kubeletplugin.cdi import CdiSpecDirectory
from kubeletplugin.checkpoint import Checkpoint
from kubeletplugin.claim_preparer import CallSteps, ClaimPreparer
from kubeletplugin.contract import (
    ClaimIdentity,
    ContainerEdits,
    PreparedClaim,
    PreparedDevice,
    PrepareError,
    PrepareRequest,
)
from kubeletplugin.directory_lock import DirectoryLock
from kubeletplugin.steps import LoopStep

DRIVER = "gpu.reserve.dra"
POOL = "n1"


def claim(name, uid=None, namespace="ml"):
    return ClaimIdentity(key=(namespace, name), uid=Uid(uid or f"uid-{name}"))


def result(device, *, request="r", share=None, admin=None, pool=POOL, driver=DRIVER):
    return DeviceRequestAllocationResult(
        request=request, driver=driver, pool=pool, device=device, share_id=share, admin_access=admin
    )


def request(name, *devices, configuration=()):
    """What a claim asks for; a device is a name or a `result`."""
    results = tuple(result(d) if isinstance(d, str) else d for d in devices)
    return PrepareRequest(claim=claim(name), results=results, configuration=configuration)


def prepared(asked):
    """What `FakeDriver` makes of it."""
    devices = tuple(
        PreparedDevice(
            requests=(r.request.partition("/")[0],),
            pool=r.pool,
            device=r.device,
            share=r.share_id or "",
            admin=bool(r.admin_access),
            edits=ContainerEdits(env=(f"DEVICE={r.device}",)),
        )
        for r in asked.results
    )
    return PreparedClaim(claim=asked.claim, driver=DRIVER, devices=devices, state={"of": asked.claim.key[1]})


class FakeDriver:
    """Grants everything unless told otherwise; `enforced` is what the machine looks like."""

    name = DRIVER

    def __init__(self):
        self.enforced = None
        self.looks = 0
        self.others = []
        self.refuses = {}
        self.stuck = None

    def prepare(self, request, others):
        self.others.append({each.claim.uid for each in others})
        failure = self.refuses.get(request.claim.uid)
        if failure is not None:
            raise failure
        return prepared(request)

    async def enforce(self, preparations):
        self.looks += 1
        if self.stuck is not None:
            raise self.stuck
        self.enforced = {each.claim.uid: each for each in preparations}


class FakeClaims:
    """A `Reader` over what a test puts into `requests`."""

    def __init__(self):
        self.requests = {}
        self.reads = 0

    def allocate(self, name, *devices, **more):
        asked = request(name, *devices, **more)
        self.requests[asked.claim.uid] = asked
        return asked.claim

    async def read(self, claims):
        self.reads += 1
        return {c.uid: self.requests.get(c.uid) or PrepareError(f"{c}: is gone") for c in claims}


def ignore_step(name):
    """Do nothing behind a step."""


class TracedSpecs(CdiSpecDirectory):
    """CDI specs that call `behind_step`."""

    def __init__(self, folder, behind_step):
        super().__init__(folder, driver=DRIVER, steps=_traced_replacement("cdi", behind_step))
        self._behind_step = behind_step

    def remove(self, uid):
        super().remove(uid)
        self._behind_step("cdi removed")


def _traced(step, behind_step):
    """Return a step that calls `behind_step` once it is done."""

    async def do_in_loop(batch):
        failures = await step.do(batch)
        behind_step(step.name)
        return failures

    def do_with_files(batch):
        failures = step.do(batch)
        behind_step(step.name)
        return failures

    return replace(step, do=do_in_loop if isinstance(step, LoopStep) else do_with_files)


def _traced_replacement(file, behind_step):
    def traced(step):
        def do(replacement):
            step.do(replacement)
            behind_step(f"{file} {step.name}")

        return step._replace(do=do)

    return tuple(traced(step) for step in REPLACEMENT)


@dataclass
class FakeNode:
    """The disk of a node, and instances of the plugin on it."""

    folder: Path
    claims: FakeClaims = field(default_factory=FakeClaims)

    def __post_init__(self):
        self.own = self.folder / "plugin"
        self.own.mkdir(mode=0o700, exist_ok=True)
        self.checkpoint = self.own / "checkpoint.json"
        self.cdi = CdiSpecDirectory(self.folder / "cdi", driver=DRIVER)

    def instance(self, *, behind_step=ignore_step, driver=None, sync=False, **more):
        """Return a plugin that has just been started; it calls `behind_step` with the name of each step done."""
        return ClaimPreparer(
            driver or FakeDriver(),
            claims=self.claims,
            checkpoint=Checkpoint(
                self.checkpoint,
                PreparedClaim,
                related_files=self.cdi.pattern,
                sync=sync,
                steps=_traced_replacement("checkpoint", behind_step),
            ),
            cdi=TracedSpecs(self.cdi.folder, behind_step),
            lock=DirectoryLock(self.own),
            steps=CallSteps(*(tuple(_traced(step, behind_step) for step in steps) for steps in CallSteps())),
            **more,
        )

    @property
    def remembered(self):
        return {each.claim.uid: each for each in Checkpoint(self.checkpoint, PreparedClaim).read()}
