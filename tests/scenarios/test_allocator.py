"""kube-scheduler chooses the devices that `dra.engine.allocator` chooses: a sample of `make allocator-scheduler`.

Each question has a node of its own, which no kubelet knows. Where there is no solution, only that is compared: the
scheduler of the local plane goes on with other nodes where kube-scheduler gives up the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.allocator import cases, judge, placing
from tests.allocator.differences import known
from tests.allocator.objects import alone, device_classes
from tests.cluster.versions import minor
from tests.scenarios.features import kubernetes_version
from tests.scenarios.resources import NAMESPACES
from tests.scenarios.target import Mode

if TYPE_CHECKING:
    from tests.scenarios.api import Api
    from tests.scenarios.namespaces import Namespace

pytestmark = pytest.mark.modes(Mode.REPLACE)

SEEDS: Final = 300


def sample() -> dict[str, cases.Json]:
    """Return questions that may be asked beside other nodes, by default gates, and that the plane's scheduler takes."""
    found = {f"q{seed}": cases.question(seed) for seed in range(SEEDS)}
    return {
        name: each
        for name, each in found.items()
        if not (each["lists"] or each["fractional"] or alone(each) or known(each) or "bindingConditions" in str(each))
    }


@pytest.mark.skipif(
    minor(kubernetes_version()) < minor(placing.KUBERNETES), reason=f"the allocator is that of {placing.KUBERNETES}"
)
async def test_the_scheduler_chooses_the_same_devices(api: Api, namespace: Namespace) -> None:
    questions = sample()
    labels = {"metadata": {"labels": {placing.ADMIN_ACCESS: "true"}}}
    await api.patch(NAMESPACES, namespace.name, labels)
    for each in device_classes(next(iter(questions.values()))["classes"]):
        await namespace.create(each)

    answered = [each async for each in placing.ask(api, questions, namespace=namespace.name)]

    chosen = {name: theirs if isinstance(theirs, list) else None for name, _, theirs in answered}
    ours = {name: judge.ours(asked) for name, asked, _ in answered}
    assert chosen == {name: found if isinstance(found, list) else None for name, found in ours.items()}
    assert sum(found is not None for found in chosen.values()) >= SEEDS // 30
