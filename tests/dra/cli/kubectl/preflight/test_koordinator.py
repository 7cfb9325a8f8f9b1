"""Whether requests in Koordinator's form can work: which parts of deploy/koordinator a cluster has and lacks."""

from pathlib import Path

import msgspec
import pytest
import yaml

from dra.api.rbac import RolePurpose
from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.preflight import access_review, command
from dra.cli.kubectl.preflight.access_review import ReviewedUser
from dra.cli.kubectl.preflight.command import PreflightOptions
from dra.cli.kubectl.preflight.koordinator import (
    POLICIES,
    PRIORITY_CLASS_NAMES,
    KoordinatorInstallation,
    find_installation,
    judge_installation,
)
from dra.kube.discovery import Discovery
from tests.dra.kube.scripted import Handling, body_of, client_of, ok, page, refusal
from tests.violations import for_each_case

DEPLOY = Path(__file__).parents[5] / "deploy"
PRESENT = tuple(
    f"{kind}/{name}"
    for policies, name in POLICIES
    for kind in (policies, policies.replace("policies", "policybindings"))
)
WHOLE = KoordinatorInstallation(present=PRESENT, enabled_namespaces=2)


def test_the_policies_are_those_of_the_manifests():
    manifests = [
        obj
        for file in sorted((DEPLOY / "koordinator").glob("*.yaml"))
        for obj in yaml.safe_load_all(file.read_text())
        if obj["apiVersion"].startswith("admissionregistration.k8s.io")
    ]
    plurals = {"Policy": "policies", "Binding": "policybindings"}
    named = {
        f"{each['kind'].lower().removesuffix('binding').removesuffix('policy')}"
        f"{plurals['Binding' if each['kind'].endswith('Binding') else 'Policy']}/{each['metadata']['name']}"
        for each in manifests
    }
    assert named == set(PRESENT)


def test_the_priority_classes_are_those_of_the_manifests():
    """Koordinator's users name koord-prod in their pods, and the API server refused each of them: no such class."""
    manifests = list(
        yaml.safe_load_all((DEPLOY / "koordinator-priority-classes" / "priority-classes.yaml").read_text())
    )
    assert tuple(each["metadata"]["name"] for each in manifests) == PRIORITY_CLASS_NAMES
    assert [each["value"] for each in manifests] == [9999, 7999, 5999, 3999]


@for_each_case(
    [
        pytest.param(KoordinatorInstallation(missing=PRESENT), False, CheckState.OK, "not installed", id="not-wanted"),
        pytest.param(
            KoordinatorInstallation(missing=PRESENT), True, CheckState.MISSING, f"missing: {PRESENT[0]}, ", id="wanted"
        ),
        pytest.param(
            KoordinatorInstallation(missing=PRESENT, enabled_namespaces=1),
            False,
            CheckState.MISSING,
            "missing: ",
            id="namespaces-without-policies",
        ),
        pytest.param(
            msgspec.structs.replace(WHOLE, missing=("x/y",)), False, CheckState.MISSING, "missing: x/y", id="in-part"
        ),
        pytest.param(
            msgspec.structs.replace(WHOLE, translates=False), False, CheckState.WARNING, "requires 1.36", id="too-old"
        ),
        pytest.param(
            msgspec.structs.replace(WHOLE, missing_classes=("gpu.reserve.dra",)),
            False,
            CheckState.WARNING,
            "missing: DeviceClass gpu.reserve.dra; ",
            id="no-class",
        ),
        pytest.param(
            msgspec.structs.replace(WHOLE, missing_priority_classes=("koord-prod", "koord-free")),
            False,
            CheckState.WARNING,
            "missing: PriorityClass koord-prod, koord-free; the API server refuses pods that name it",
            id="no-priority-class",
        ),
        pytest.param(
            msgspec.structs.replace(WHOLE, enabled_namespaces=0), False, CheckState.WARNING, "no namespace", id="unused"
        ),
        pytest.param(WHOLE, True, CheckState.OK, "namespaces labelled reserve.dra/koordinator=enabled: 2", id="whole"),
        pytest.param(
            KoordinatorInstallation(unread="forbidden"), True, CheckState.UNKNOWN, "forbidden", id="unreadable"
        ),
    ]
)
def test_judgement(found, wanted, state, detail):
    result = judge_installation(found, wanted=wanted)
    assert result.state is state
    assert detail in result.detail
    assert (result.remedy is not None) == (state in {CheckState.MISSING, CheckState.WARNING})


@pytest.mark.parametrize(
    ("options", "more"),
    [
        pytest.param({"replace": False}, [], id="alongside"),
        pytest.param({"replace": True}, [RolePurpose.GENERATION], id="replace"),
        pytest.param({"replace": False, "koordinator": True}, [RolePurpose.KOORDINATOR], id="koordinator"),
    ],
)
def test_only_permissions_of_the_controller_and_of_its_options_are_asked_for(options, more):
    """The account of the descheduler, for one, needs others."""
    always = [RolePurpose.CLAIMS, RolePurpose.WORKLOADS, RolePurpose.EVICTION]
    assert list(access_review.needed_purposes(**options)) == always + more


class ClusterOf:
    """The answers of an API server with some policies, DeviceClasses and enabled namespaces."""

    def __init__(
        self, *, mutating="v1", policies=(), classes=(), priorities=PRIORITY_CLASS_NAMES, namespaces=0, refused=""
    ):
        self.mutating = mutating
        self.paths = {f"{PREFIX}/v1/{each}" for each in policies}
        self.paths |= {f"/apis/resource.k8s.io/v1/deviceclasses/{each}" for each in classes}
        self.paths |= {f"/apis/scheduling.k8s.io/v1/priorityclasses/{each}" for each in priorities}
        self.namespaces = namespaces
        self.refused = refused
        self.reviewed = set()

    def __call__(self, request):
        path = request.path.partition("?")[0]
        if self.refused and self.refused in path:
            return refusal(403, "Forbidden")
        if path == PREFIX:
            versions = sorted({"v1", self.mutating} - {""})
            return ok({"versions": [{"version": each} for each in versions], "preferredVersion": {"version": "v1"}})
        if path.startswith(f"{PREFIX}/v") and path.count("/") == 3:
            version = path.rpartition("/")[2]
            kinds = [*(VALIDATING if version == "v1" else ()), *(MUTATING if version == self.mutating else ())]
            return ok({"resources": [{"name": each, "kind": each} for each in kinds]})
        if path.endswith("subjectaccessreviews"):
            attributes = body_of(request)["spec"]["resourceAttributes"]
            self.reviewed.add((attributes["verb"], attributes["resource"]))
            return ok({"status": {"allowed": attributes["resource"] != "resourceclaimtemplates"}}, status=201)
        if path == "/api/v1/namespaces":
            return page(*({"metadata": {"name": f"n{number}"}} for number in range(self.namespaces)))
        return ok({"metadata": {"name": "x"}}) if path in self.paths else refusal(404, "NotFound")

    async def find(self):
        client = client_of(Handling(self))
        return await find_installation(client, Discovery(client))


PREFIX = "/apis/admissionregistration.k8s.io"
MUTATING, VALIDATING = (
    (f"{each}admissionpolicies", f"{each}admissionpolicybindings") for each in ("mutating", "validating")
)
CLASSES = ("cpu.reserve.dra", "gpu.reserve.dra")


@pytest.mark.parametrize(
    ("cluster", "found"),
    [
        pytest.param(
            {"policies": PRESENT, "classes": CLASSES, "namespaces": 2},
            WHOLE,
            id="whole",
        ),
        pytest.param(
            {},
            KoordinatorInstallation(missing=PRESENT, missing_classes=CLASSES),
            id="nothing",
        ),
        pytest.param(
            {"policies": PRESENT[:4], "classes": CLASSES[:1], "priorities": ["koord-prod"]},
            KoordinatorInstallation(
                present=PRESENT[:4],
                missing=PRESENT[4:],
                missing_classes=CLASSES[1:],
                missing_priority_classes=PRIORITY_CLASS_NAMES[1:],
            ),
            id="in-part",
        ),
        pytest.param(
            {"mutating": "", "policies": PRESENT, "classes": CLASSES},
            KoordinatorInstallation(translates=False, present=PRESENT[2:]),
            id="before-1.36",
        ),
        pytest.param(
            {"mutating": "v1beta1", "policies": PRESENT, "classes": CLASSES},
            KoordinatorInstallation(translates=False, present=PRESENT[2:]),
            id="only-a-beta-version",
        ),
    ],
)
async def test_what_is_installed_is_found(cluster, found):
    assert await ClusterOf(**cluster).find() == found


async def test_a_refused_read_is_told():
    found = await ClusterOf(policies=PRESENT, refused="/namespaces").find()
    assert not found.exists
    assert "namespaces" in found.unread


@pytest.mark.parametrize(
    ("policies", "koordinator", "asked"),
    [
        pytest.param((), False, False, id="not-installed"),
        pytest.param((), True, True, id="asked-for"),
        pytest.param(PRESENT[:2], False, True, id="installed-in-part"),
    ],
)
async def test_the_permissions_of_the_controller_are_reviewed(policies, koordinator, asked):
    cluster = ClusterOf(policies=policies)
    transport = Handling(cluster)
    options = PreflightOptions(
        identity=ReviewedUser(name="jane"), replace_mode=False, namespace="dra-reserve", koordinator=koordinator
    )
    lacking = await command._find_missing_permissions(
        Connection(client=client_of(transport), transport=transport), options
    )
    assert (("create", "resourceclaimtemplates") in cluster.reviewed) is asked
    assert (
        [f"{each}" for each in lacking.cluster.get(RolePurpose.KOORDINATOR, ())][:1]
        == ["list resourceclaimtemplates.resource.k8s.io"]
    ) is asked
