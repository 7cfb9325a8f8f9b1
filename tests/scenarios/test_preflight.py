"""`kubectl dra preflight` on a real cluster: what it says is so, and what it prints helps."""

from __future__ import annotations

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios import plugin
from tests.scenarios.api import Api
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import NAMESPACES
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.long


@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.needs(Capability.COMPONENTS)
async def test_an_installed_cluster_is_ready_and_the_trial_is_certain(target: Target, api: Api) -> None:
    answer = await plugin.run(target.admin, "preflight", "--probe", "--output=json")
    found = {each["check"]: each for each in answer.content["checks"]}
    assert (answer.code, answer.content["ready"]) == (0, True), answer.output
    assert found["rights"]["verdict"] == "ok"
    assert found["stock controller"]["sure"] == "certain: by a probe pod"
    assert found["clock"]["verdict"] == "ok"
    left = [each["metadata"] for each in await api.all(NAMESPACES)]
    assert [each["name"] for each in left if each["name"].startswith("dra-reserve-probe")] == [
        each["name"] for each in left if each["name"].startswith("dra-reserve-probe") and "deletionTimestamp" in each
    ]


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.needs(Capability.COMPONENTS)
async def test_where_the_stock_controller_is_off_the_trial_says_so(target: Target) -> None:
    """The installation is scaled to 0 replicas, since scenarios run the controller themselves; preflight says so."""
    ready = await plugin.run(target.admin, "preflight", "--probe", "--mode=replace", "--output=json")
    assert ready.missing() == ["controller"], ready.output
    other = await plugin.run(target.admin, "preflight", "--probe", "--mode=alongside", "--output=json")
    assert (other.code, other.missing()) == (1, ["controller", "stock controller"])


@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.needs(Capability.RIGHTS)
async def test_missing_rights_are_named_and_the_yaml_grants_them(target: Target, namespace: Namespace) -> None:
    stranger = f"system:serviceaccount:{namespace.name}:default"
    lacking = await plugin.run(target.admin, "preflight", f"--as={stranger}", "--output=json")
    assert (lacking.code, lacking.missing()) == (1, ["rights"])
    told = next(each["detail"] for each in lacking.content["checks"] if each["check"] == "rights")
    assert "patch resourceclaims.resource.k8s.io/binding" in told
    assert "get leases.coordination.k8s.io in namespace dra-reserve" in told
    granting = await plugin.run(target.admin, "preflight", f"--as={stranger}", "--missing-rights")
    assert granting.code == 0
    try:
        kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=granting.output)
        assert (await plugin.run(target.admin, "preflight", f"--as={stranger}")).code == 0
    finally:
        command = ("delete", "--filename=-", "--ignore-not-found", "--wait=false")
        kubectl(*command, kubeconfig=target.admin, stdin=granting.output)


@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.needs(Capability.RIGHTS)
async def test_who_may_not_ask_for_others_is_told_what_to_do(target: Target) -> None:
    refused = await plugin.run(target.controller, "preflight")
    assert refused.code == 2
    assert refused.output == ""
    assert "--self" in refused.messages
