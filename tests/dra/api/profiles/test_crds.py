"""Our own control plane takes both definitions, Koordinator's manifests, and all that the engine resolves."""

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dra.api.profiles import crd, parameters_crd
from dra.api.profiles.model import MalformedProfileError, parse_profile
from dra.engine.profiles.evaluation import evaluate
from tests.dra.engine.profiles.examples import MANIFESTS, PRIORITIES, manifest, profile
from tests.dra.engine.profiles.strategies import profiles
from tests.localplane.crds.example import CustomResourceApi

PROFILES = "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles"
PARAMETERS = "/apis/reserve.dra/v1alpha1/colocationprofileparameters"


@pytest.fixture
async def api():
    api = CustomResourceApi()
    await api.define(crd.custom_resource_definition())
    await api.define(parameters_crd.custom_resource_definition())
    return api


async def write(api, *resolved):
    body = {
        "apiVersion": "reserve.dra/v1alpha1",
        "kind": "ColocationProfileParameters",
        "metadata": {"generateName": "p-"},
        "spec": {"profiles": list(resolved)},
    }
    return await api.ask("POST", PARAMETERS, body)


@pytest.mark.parametrize("text", MANIFESTS, ids=["manual", "spark", "quick-start"])
async def test_manifests_of_koordinator_keep_every_field(api, text):
    given_manifest = manifest(text)
    status, made = await api.ask("POST", PROFILES, given_manifest)
    assert (status, made["spec"]) == (201, given_manifest["spec"])


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"labels": [{"key": "reserve.dra/x", "value": ""}]}, id="key-of-dra-reserve"),
        pytest.param({"annotations": [{"key": "a.kubernetes.io/x", "value": ""}]}, id="key-of-kubernetes"),
        pytest.param({"labels": [{"key": "a/../b", "value": ""}]}, id="path"),
        pytest.param({"priorityClassName": "system-node-critical"}, id="class-of-the-system"),
        pytest.param({"schedulerName": "a b"}, id="no-name"),
    ],
)
async def test_the_schema_of_the_parameters_refuses_what_no_profile_sets(api, entry):
    status, said = await write(api, {"name": "p", **entry})
    assert status == 422, said


@settings(
    max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=st.tuples(*(profiles(name=name) for name in "ab")))
def test_the_schema_takes_all_that_the_engine_resolves(drawn):
    """One profile that the schema refuses would keep all profiles from taking effect."""

    async def accepted():
        api = CustomResourceApi()
        await api.define(parameters_crd.custom_resource_definition())
        status, said = await write(api, *evaluate(drawn, priorities=PRIORITIES).parameters["profiles"])
        assert status == 201, said

    asyncio.run(accepted())


@pytest.mark.parametrize(
    ("content", "path"),
    [
        pytest.param({"spec": {"qosClass": "be"}}, "spec.qosClass", id="class"),
        pytest.param({"spec": {"labels": {"a": 1}}}, "spec.labels", id="a-number-as-a-label"),
        pytest.param(
            {"spec": {"selector": {"matchExpressions": [{"key": "a"}]}}}, "operator: required", id="no-operator"
        ),
        pytest.param({"spec": {"patch": []}}, "spec.patch", id="patch-is-a-list"),
        pytest.param({"spec": None, "metadata": {"name": 1}}, "metadata.name", id="name"),
    ],
)
def test_a_malformed_profile_names_the_path(content, path):
    with pytest.raises(MalformedProfileError, match=path.replace(".", r"\.")):
        parse_profile({**profile("a"), **content})
