"""``kubectl dra colocation`` and ``dra-reserve colocation-profiles``, run as users run them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster import kubeconfig
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import Process
from tests.dra.engine.profiles.examples import BATCH_CPU, container, pod, profile
from tests.scenarios.api import Json
from tests.scenarios.controller import INSTALLED
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.profiles.conftest import Place
from tests.scenarios.resources import COLOCATION_PARAMETERS, COLOCATION_PROFILES, NAMESPACES
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

PLUGIN: Final = str(Path(sys.executable).with_name("kubectl-dra"))
ENABLED: Final = {"namespaceSelector": {"matchLabels": {"koordinator.sh/enable-colocation": "true"}}}


def dra(target: Target, *arguments: str) -> tuple[int, str]:
    """Run the plugin; return its exit code, and what it printed."""
    done = subprocess.run(
        [PLUGIN, *arguments, f"--kubeconfig={target.admin}"], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


async def test_apply_puts_profiles_into_effect_and_why_explains_them(place: Place, target: Target) -> None:
    batch = f"a-{place.namespace.name}"
    selector = {"selector": {"matchLabels": {"app": "spark"}}}
    await place.namespace.create(profile(batch, qosClass="BE", priorityClassName="koord-batch", **ENABLED, **selector))
    await place.namespace.create(profile(f"b-{place.namespace.name}", probability="10%", **ENABLED))
    older = pod(container(requests={"cpu": "1"}), labels={"app": "spark"})
    older["metadata"]["name"] = "older"
    await place.create(older)

    code, planned = await asyncio.to_thread(dra, target, "colocation", "apply", "--dry-run")
    assert code == 1, planned
    assert f"profile {batch}: new pods that the profile selects get what it says" in planned
    assert await place.api.find(COLOCATION_PARAMETERS, "profiles") is None

    code, said = await asyncio.to_thread(dra, target, "colocation", "apply")
    assert code == 1, said
    assert "mutatingadmissionpolicy.admissionregistration.k8s.io/profiles.reserve.dra unchanged" in said
    assert f"profile b-{place.namespace.name}: the profile is not applied, since no policy can do all of it" in said
    found = await place.api.get(COLOCATION_PROFILES, f"b-{place.namespace.name}")
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert conditions == {"Ready": "False", "Conflict": "False", "Unsupported": "True"}

    async def in_effect() -> bool:
        made = await place.send(pod(container(requests={"cpu": "1"}), labels={"app": "spark"}))
        return bool(made["spec"]["containers"][0]["resources"].get("requests") == {BATCH_CPU: "1k"})

    await eventually(in_effect, saying="the profile is in effect")
    here = f"--namespace={place.namespace.name}"
    code, said = await asyncio.to_thread(dra, target, "colocation", "why", "older", here)
    assert code == 1
    assert f"profile {batch}: does not apply: it applies to new pods, but the pod lacks label" in said
    newer = pod(container(requests={"cpu": "1"}), labels={"app": "spark"})
    newer["metadata"]["name"] = "q"
    await place.create(newer)
    code, said = await asyncio.to_thread(dra, target, "colocation", "why", "pod/q", here)
    assert code == 0
    assert f"profile {batch}: applies\n" in said
    assert f"profile b-{place.namespace.name}: does not apply: the profile is not applied" in said
    assert "spec.probability: admission policies draw no chance" in said
    labels: Json = {"metadata": {"labels": {"koordinator.sh/enable-colocation": None}}}
    await place.api.patch(NAMESPACES, place.namespace.name, labels)
    code, said = await asyncio.to_thread(dra, target, "colocation", "why", "q", here)
    assert code == 1
    assert f"namespace {place.namespace.name} does not meet koordinator.sh/enable-colocation=true" in said

    await place.api.delete(COLOCATION_PROFILES, batch)
    _, said = await asyncio.to_thread(dra, target, "colocation", "apply")
    assert f"profile {batch}: no longer in effect" in said
    assert (await place.api.get(COLOCATION_PARAMETERS, "profiles"))["spec"] == {"profiles": []}


async def test_a_policy_of_somebody_else_stays_as_it_is(place: Place, target: Target) -> None:
    del place
    name = "validatingadmissionpolicy/batch-pods.reserve.dra"
    label = "app.kubernetes.io/part-of"
    await asyncio.to_thread(kubectl, "label", name, f"{label}-", kubeconfig=target.admin)
    try:
        code, said = await asyncio.to_thread(dra, target, "colocation", "apply")
    finally:
        await asyncio.to_thread(kubectl, "label", name, f"{label}=dra-reserve", kubeconfig=target.admin)
    assert code == 2
    assert "batch-pods.reserve.dra: exists without the label" in said
    assert "nothing was changed" in said


@pytest.fixture
async def process(place: Place, target: Target) -> AsyncIterator[Process]:
    """The process of deploy/colocation-profiles, with the token of its account."""
    name = f"{place.namespace.name}-profiles"
    account = await asyncio.to_thread(
        kubeconfig.for_service_account,
        target.folder.path / f"{name}.kubeconfig",
        admin=target.admin,
        namespace="dra-reserve",
        name="dra-reserve-profiles",
    )
    configuration = target.folder.path / f"{name}.yaml"
    leases = {"leaderElection": {"enabled": True, "leaseSeconds": 120, "renewSeconds": 90, "retrySeconds": 2}}
    configuration.write_text(json.dumps({"probes": None, "metrics": None, **leases}), encoding="utf-8")
    command = [*INSTALLED, "colocation-profiles", f"--kubeconfig={account}", f"--config={configuration}"]
    found = target.folder.process(name, command)
    found.spawn()
    yield found
    await asyncio.to_thread(found.stop)
    print(found.tail())  # shown with a failure


async def test_the_process_needs_no_right_on_policies(place: Place, process: Process) -> None:
    first, second = (f"{letter}-{place.namespace.name}" for letter in "ab")
    chosen = {"selector": {"matchLabels": {"app": "spark"}}, **ENABLED}
    await place.namespace.create(profile(first, qosClass="BE", priorityClassName="koord-batch", **chosen))

    async def conditions(name: str) -> dict[str, str]:
        process.raise_if_dead()
        status = (await place.api.get(COLOCATION_PROFILES, name)).get("status") or {}
        return {each["type"]: f"{each['status']} {each['message']}" for each in status.get("conditions", ())}

    async def is_ready() -> bool:
        return (await conditions(first)).get("Ready", "").startswith("True")

    await eventually(is_ready, saying="the profile is ready")

    async def in_effect() -> bool:
        made = await place.send(pod(container(requests={"cpu": "1"}), labels={"app": "spark"}))
        return bool(made["spec"]["containers"][0]["resources"].get("requests") == {BATCH_CPU: "1k"})

    await eventually(in_effect, saying="the profile is in effect")
    await place.namespace.create(profile(second, qosClass="LS", **chosen))

    async def conflict() -> list[str]:
        return [(await conditions(name)).get("Conflict", "") for name in (first, second)]

    texts = await eventually(
        conflict, until=lambda found: all(each.startswith("True") for each in found), saying="both are in conflict"
    )
    wanted = f"metadata.labels[koordinator.sh/qosClass] is set differently by {first} and {second}: {second} wins"
    assert texts == [f"True {wanted}"] * 2
    await place.api.delete(COLOCATION_PROFILES, first)
    await place.api.delete(COLOCATION_PROFILES, second)

    async def parameters() -> Json:
        process.raise_if_dead()
        found: Json = (await place.api.get(COLOCATION_PARAMETERS, "profiles"))["spec"]
        return found

    await eventually(parameters, until=lambda found: found == {"profiles": []}, saying="no profile is in effect")
