"""The real API server takes Reservations as people have them, shows them, and refuses those that cannot be meant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any, Final

import pytest
import yaml

from tests.cluster.kubectl import KubectlError, kubectl
from tests.dra.api.reservations.manifests import manifest
from tests.scenarios.api import Api, ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import EXAMPLES
from tests.scenarios.resources import RESERVATIONS
from tests.scenarios.target import Capability, Place, Target, capabilities

MANIFESTS: Final = sorted(path.name for path in EXAMPLES.glob("*.yaml") if "kind: Reservation" in path.read_text())
RESIZE: Final = "scheduling.koordinator.sh/reservation-resize-allocatable"
ORDER: Final = "scheduling.koordinator.sh/reservation-order"


@pytest.fixture
async def clean(api: Api) -> AsyncIterator[Api]:
    """The API, without reservations at the end, and with the policy in force, if the server evaluates any."""

    async def in_force() -> bool:
        try:
            await api.request("POST", f"{RESERVATIONS.path()}?dryRun=All", requesting(cpu="x"))
        except ApiError as error:
            return "is no amount" in str(error)
        return False

    if Capability.POLICIES in capabilities(Place.chosen()):
        await eventually(in_force, within=30, saying="the admission policy is in force")
    yield api
    for each in await api.all(RESERVATIONS):
        await api.delete(RESERVATIONS, each["metadata"]["name"])


def requesting(**requests: Any) -> dict[str, Any]:
    return with_pod(containers=[{"name": "a", "image": "b", "resources": {"requests": requests}}])


def with_pod(**spec: Any) -> dict[str, Any]:
    made = manifest()
    made["spec"]["template"]["spec"] |= spec
    return made


def with_metadata(**metadata: Any) -> dict[str, Any]:
    made = manifest()
    made["metadata"] |= metadata
    return made


def owned_by(**owner: Any) -> dict[str, Any]:
    return manifest(owners=[owner])


@pytest.mark.parametrize("name", MANIFESTS)
async def test_what_people_have_is_taken_as_it_stands_and_shown(clean: Api, target: Target, name: str) -> None:
    (wanted,) = yaml.safe_load_all((EXAMPLES / name).read_text())
    kubectl("apply", "--filename", str(EXAMPLES / name), kubeconfig=target.admin)

    made = await clean.get(RESERVATIONS, wanted["metadata"]["name"])
    assert made["spec"] == {"allocateOnce": True} | wanted["spec"]
    narrow = kubectl("get", "rsv", wanted["metadata"]["name"], kubeconfig=target.admin)
    assert narrow.split()[:3] == ["NAME", "PHASE", "AGE"]
    wide = kubectl("get", "reservations", "-o", "wide", kubeconfig=target.admin)
    assert wide.split()[:7] == ["NAME", "PHASE", "AGE", "CLAIMS", "NODE", "TTL", "EXPIRES"]
    assert " 1h " in f"{wide.splitlines()[1]} "
    assert wanted["spec"].get("expires", "") in wide


MALFORMED: Final = [
    pytest.param(manifest(owners=None), "spec.owners: Required value", id="no-owners"),
    pytest.param(manifest(owners=[]), "spec.owners: Invalid value", id="nobody"),
    pytest.param(owned_by(), "spec.owners[0]: Invalid value", id="an-owner-that-says-nothing"),
    pytest.param(owned_by(object={}), "spec.owners[0].object: Invalid value", id="any-object"),
    pytest.param(owned_by(controller={"kind": "Job"}), "spec.owners[0].controller: Invalid", id="any-job"),
    pytest.param(owned_by(labelSelector={}), "spec.owners[0].labelSelector: Invalid value", id="any-labels"),
    pytest.param(
        owned_by(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
        "spec.owners[0].labelSelector.matchExpressions[0]: Invalid value",
        id="in-nothing",
    ),
    pytest.param(
        owned_by(labelSelector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
        "spec.owners[0].labelSelector.matchExpressions[0].operator: Unsupported value",
        id="operator",
    ),
    pytest.param(
        owned_by(labelSelector={"matchExpressions": [{"key": "a b", "operator": "Exists"}]}),
        "labelSelector.matchExpressions: a key is no key of a label",
        id="key-of-an-expression",
    ),
    pytest.param(
        owned_by(labelSelector={"matchLabels": {"-": "b"}}),
        "labelSelector.matchLabels: a key is no key of a label",
        id="key-of-a-label",
    ),
    pytest.param(
        owned_by(labelSelector={"matchLabels": {"a": "b c"}}),
        "labelSelector.matchLabels: a value is not a valid label value",
        id="value-of-a-label",
    ),
    pytest.param(manifest(template=None), "spec.template: Required value", id="no-template"),
    pytest.param(manifest(template={}), "spec.template: Invalid value", id="empty-template"),
    pytest.param(with_pod(containers=[]), "spec.template: Invalid value", id="no-containers"),
    pytest.param(requesting(), "spec.template.spec.containers: reserves nothing", id="nothing-requested"),
    pytest.param(requesting(cpu="x"), "spec.template.spec.containers: cpu: is no amount", id="no-quantity"),
    pytest.param(requesting(memory="-1Gi"), "spec.template.spec.containers: memory: is no amount", id="negative"),
    pytest.param(requesting(cpu="1 core"), "spec.template.spec.containers: cpu: is no amount", id="with-a-word"),
    pytest.param(with_pod(nodeName="Node 1"), "spec.template.spec.nodeName: is no name of a node", id="node-name"),
    pytest.param(with_pod(nodeName=7), "spec.template.spec.nodeName: is no name of a node", id="node-number"),
    pytest.param(with_pod(preemptionPolicy="never"), "preemptionPolicy: must be Never or", id="preemption-policy"),
    pytest.param(manifest(ttl="1d"), "spec.ttl: Invalid value", id="days"),
    pytest.param(manifest(ttl="-1h"), "spec.ttl: Invalid value", id="in-the-past"),
    pytest.param(manifest(ttl=60), "spec.ttl: Invalid value", id="number"),
    pytest.param(manifest(expires="tomorrow"), "spec.expires: Invalid value", id="expires"),
    pytest.param(manifest(allocatePolicy="Strict"), "spec.allocatePolicy: Unsupported value", id="policy"),
    pytest.param(manifest(allocateOnce="yes"), "spec.allocateOnce: Invalid value", id="boolean"),
    pytest.param(manifest(taints=[{"key": "a"}]), "spec.taints[0].effect: Required value", id="taint"),
    pytest.param(manifest(preAllocation=True), "spec.preAllocation: goes with", id="pre-allocation-by-default-policy"),
    pytest.param(with_metadata(labels={ORDER: "first"}), "reservation-order]: must be an integer", id="order"),
    pytest.param(
        with_metadata(labels={"koordinator.sh/priority": "high"}), "priority]: must be an integer", id="priority"
    ),
    pytest.param(with_metadata(annotations={RESIZE: "cpu=4"}), "must be JSON objects", id="resize"),
]


@pytest.mark.needs(Capability.POLICIES)
@pytest.mark.parametrize(("wrong", "named"), MALFORMED)
async def test_what_cannot_be_meant_is_refused_with_the_field_named(
    clean: Api, target: Target, wrong: dict[str, Any], named: str
) -> None:
    with pytest.raises(KubectlError) as refused:
        kubectl("create", "--filename=-", "--validate=false", kubeconfig=target.admin, stdin=yaml.safe_dump(wrong))
    assert named in str(refused.value)
    assert await clean.all(RESERVATIONS) == []


async def test_thirty_kinds_of_mistakes_are_known() -> None:
    assert len(MALFORMED) >= 30


@pytest.mark.needs(Capability.POLICIES)
async def test_whoever_names_owners_without_a_namespace_is_warned(clean: Api, target: Target) -> None:
    def warning(owner: dict[str, Any]) -> str:
        command = ("create", "--filename=-", "--dry-run=server", "--warnings-as-errors")
        try:
            kubectl(*command, kubeconfig=target.admin, stdin=yaml.safe_dump(owned_by(**owner)))
        except KubectlError as told:
            return str(told)
        return ""

    web = {"labelSelector": {"matchLabels": {"app": "web"}}}
    await eventually(
        lambda: "1 of 1 name no namespace: whoever can create pods in any namespace" in warning(web),
        within=30,
        saying="the policy about owners warns",
    )
    assert warning(web | {"object": {"namespace": "default"}}) == ""
    assert await clean.all(RESERVATIONS) == []


@pytest.mark.needs(Capability.POLICIES)
async def test_what_has_its_place_keeps_its_template(clean: Api) -> None:
    await clean.create(manifest())
    await clean.patch(RESERVATIONS, "demo", {"status": {"nodeName": "n", "phase": "Available"}}, subresource="status")
    with pytest.raises(ApiError, match="already has its place; to hold more or less of it"):
        await clean.patch(RESERVATIONS, "demo", {"spec": requesting(cpu=3)["spec"]})
    await clean.patch(RESERVATIONS, "demo", {"spec": {"unschedulable": True}})


def changed(made: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a Reservation with another value at a path of its template; None removes the field."""
    made = deepcopy(made)
    *parents, last = path.split("/")
    place = made["spec"]["template"]
    for each in parents:
        place = place[int(each)] if each.isdecimal() else place.setdefault(each, {})
    if value is None:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return made


def as_typed_clients_write(made: dict[str, Any]) -> dict[str, Any]:
    """Return a Reservation as a Go client writes it that reads the template as a PodTemplateSpec.

    Fields that the type requires appear, unknown and empty ones are gone, amounts have their canonical form.
    """
    made = deepcopy(made)
    template = made["spec"]["template"]
    del template["namespace"], template["spec"]["hostNetwork"], template["spec"]["nodeSelector"]
    template["metadata"]["creationTimestamp"] = None
    main, sidecar = template["spec"]["containers"]
    main["resources"]["requests"] = {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "1"}
    sidecar["resources"] = {}
    template["spec"]["initContainers"][0] |= {"resources": {}}
    return made


HELD: Final = manifest(
    template={
        "namespace": "default",
        "metadata": {"labels": {"app": "a"}},
        "spec": {
            "hostNetwork": False,
            "automountServiceAccountToken": False,
            "nodeSelector": {},
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "initContainers": [{"name": "before", "image": "i"}],
            "containers": [
                {
                    "name": "main",
                    "image": "i",
                    "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi", "example.com/gpu": 1}},
                },
                {"name": "sidecar", "image": "i"},
            ],
        },
    }
)
"""A Reservation as a person may write it."""


HELD_CONTAINERS: Final = HELD["spec"]["template"]["spec"]["containers"]


async def placed(api: Api) -> dict[str, Any]:
    await api.create(HELD)
    status = {"nodeName": "n", "phase": "Available"}
    return await api.patch(RESERVATIONS, "demo", {"status": status}, subresource="status")


@pytest.mark.needs(Capability.POLICIES)
async def test_a_typed_client_may_write_what_it_has_read(clean: Api) -> None:
    """Koordinator's descheduler updates a Reservation that a job names."""
    made = await placed(clean)
    wanted = as_typed_clients_write(made) | {"metadata": made["metadata"] | {"labels": {"seen": "yes"}}}
    written = await clean.request("PUT", RESERVATIONS.path(name="demo"), wanted)
    assert written["metadata"]["labels"] == {"seen": "yes"}
    await clean.request("PUT", RESERVATIONS.path(name="demo"), changed(written, "namespace", "default"))


@pytest.mark.needs(Capability.POLICIES)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("spec/containers/0/resources/requests/cpu", "501m", id="amount"),
        pytest.param("spec/containers/0/resources/requests/memory", None, id="amount-removed"),
        pytest.param("spec/containers/0/resources/limits", {"memory": "2Gi"}, id="limit"),
        pytest.param("spec/containers/1/resources/requests", {"cpu": "1"}, id="amount-of-another-container"),
        pytest.param("spec/resources", {"requests": {"cpu": "9"}}, id="amount-of-the-pod"),
        pytest.param("spec/overhead", {"cpu": "1"}, id="overhead"),
        pytest.param("spec/containers/1/name", "main", id="two-containers-of-one-name"),
        pytest.param("spec/containers/1", {"name": "main", "image": "i"}, id="a-container-in-place-of-another"),
        pytest.param("spec/containers", HELD_CONTAINERS[::-1], id="another-order"),
        pytest.param("spec/containers/0", {"name": "main", "image": "i"}, id="all-amounts-removed"),
        pytest.param("spec/containers/1/restartPolicy", "Always", id="field-of-a-container"),
        pytest.param("spec/initContainers", None, id="init-container-removed"),
        pytest.param("spec/initContainers/0/image", "j", id="init-container"),
        pytest.param("spec/hostNetwork", True, id="flag"),
        pytest.param("spec/automountServiceAccountToken", None, id="flag-that-is-true-by-default"),
        pytest.param("spec/nodeSelector", {"zone": "a"}, id="selector"),
        pytest.param("spec/resourceClaims", None, id="devices-removed"),
        pytest.param("metadata/labels/app", "b", id="label"),
        pytest.param("metadata/namespace", "kube-system", id="another-namespace"),
    ],
)
async def test_what_has_its_place_keeps_each_field_of_its_template(clean: Api, path: str, value: Any) -> None:
    wanted = changed(as_typed_clients_write(await placed(clean)), path, value)
    with pytest.raises(ApiError, match="already has its place"):
        await clean.request("PUT", RESERVATIONS.path(name="demo"), wanted)


@pytest.mark.needs(Capability.POLICIES)
async def test_devices_alone_can_be_reserved(clean: Api) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    await clean.create(with_pod(containers=[{"name": "a", "image": "b"}], resourceClaims=claims))
