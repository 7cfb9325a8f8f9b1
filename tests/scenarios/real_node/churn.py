"""Pods that come and go, each with a claim of its own for one of a few GPUs: what they say, and who had which when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tests.scenarios import objects
from tests.scenarios.claims import condition
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node import pods
from tests.scenarios.resources import JOBS, PODS

if TYPE_CHECKING:
    from tests.cluster.node import RealNode
    from tests.scenarios.api import Json
    from tests.scenarios.namespaces import Namespace

JOB: Final = "churn"

_TELL: Final = f"{pods.TELL} at=$(cut -d' ' -f1 /proc/uptime)"
SCRIPT: Final = f'echo "begin {_TELL}"; sleep 1; echo "end {_TELL}"'

_LINE: Final = re.compile(r"(begin|end) gpu=(GPU-\S+) node=/dev/simgpu\d+ at=([0-9.]+)")


@dataclass(frozen=True, kw_only=True)
class Use:
    """What a container had, and for how long."""

    pod: str
    gpu: str
    begin: float
    end: float


async def start(namespace: Namespace, *, at_once: int, in_all: int) -> None:
    """Start a Job whose pods take turns."""
    await pods.offer_gpus(namespace)
    await namespace.create(objects.claim_template("gpu", device_class=f"{namespace.name}-gpus"))
    shape = PodShape(spec=objects.ON_REAL_NODE, script=SCRIPT, claim_template="gpu", run_seconds=0)
    await namespace.create(objects.job(JOB, shape, parallelism=at_once, completions=in_all))


async def complete(namespace: Namespace, *, within: float) -> None:
    """Wait until all of them have come and gone."""
    await eventually(
        lambda: namespace.get(JOBS, JOB), until=is_complete, within=within, saying="all pods have come and gone"
    )


def is_complete(job: Json) -> bool:
    """Tell whether all pods have ended well."""
    return condition(job, "Complete") == "True"


async def uses(namespace: Namespace, node: RealNode) -> list[Use]:
    """Return who had what, as the containers said; each of them must have had exactly one GPU."""
    found = []
    for pod in await namespace.all(PODS, labelSelector=f"job-name={JOB}"):
        name = pod["metadata"]["name"]
        said = _LINE.findall(node.output(namespace.name, name))
        assert [each[0] for each in said] == ["begin", "end"], f"pod {name} said {node.output(namespace.name, name)!r}"
        (_, gpu, begin), (_, same, end) = said
        assert gpu == same
        found.append(Use(pod=name, gpu=gpu, begin=float(begin), end=float(end)))
    return found


def assert_one_holder(found: list[Use]) -> None:
    """Assert that no GPU was ever with two pods at a time."""
    for gpu in {each.gpu for each in found}:
        in_turn = sorted((each for each in found if each.gpu == gpu), key=lambda each: each.begin)
        for one, next_one in pairwise(in_turn):
            assert one.end <= next_one.begin, f"{gpu} was with {one} and {next_one}"
