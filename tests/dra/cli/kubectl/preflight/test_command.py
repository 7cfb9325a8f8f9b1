from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from click.testing import CliRunner

from dra.api.rbac import Permission, RolePurpose
from dra.cli.kubectl.checklist import CheckState, is_ready
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.main import main
from dra.cli.kubectl.preflight import access_review, command, stock_controller, stock_controller_reader
from dra.cli.kubectl.preflight.access_review import MissingPermissions, ReviewedUser
from dra.cli.kubectl.preflight.command import PreflightOptions
from dra.cli.kubectl.preflight.stock_controller import StockControllerEvidence, StockControllerState
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence
from dra.engine.messages.remedies import SafeCommand, WeighedChoice
from dra.kube.client import Client, ServerVersion
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import CLAIMS, NAMESPACES, SLICES
from dra.model.meta import PartialObjectMetadata
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.localplane.threaded import served
from tests.violations import for_each_case

CONTROLLER = ReviewedUser(name="system:serviceaccount:dra-reserve:dra-reserve-controller")


@pytest.fixture
def connection():
    transport = LocalTransport(ApiServer(api=Dialect.STOCK, random=seeded(1)))
    return Connection(client=Client(transport, RateLimiter(1e6, 1e6)), transport=transport)


def options(**more):
    return PreflightOptions(**{"identity": CONTROLLER, "replace_mode": False, "namespace": "dra-reserve"} | more)


async def test_an_ordinary_cluster_is_ready(connection):
    report = await command.run_checks(connection, options())
    assert is_ready(report.findings), report.findings
    assert [each.check for each in report.findings] == [
        "version",
        "api",
        "rights",
        "controller",
        "stock controller",
        "gate policy",
        "PodGroup API",
        "CDI",
        "migrations",
        "certificates",
        "colocation",
        "node kernels",
        "Koordinator requests",
        "clock",
    ]


async def test_an_ordinary_cluster_is_not_ready_for_mode_replace(connection):
    report = await command.run_checks(connection, options(replace_mode=True))
    assert [each.check for each in report.findings if each.state is CheckState.MISSING] == ["stock controller"]


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        pytest.param(("1", "33"), CheckState.MISSING, id="too-old"),
        pytest.param(("1", "34"), CheckState.OK, id="oldest"),
        pytest.param(("1", "36+"), CheckState.OK, id="a-vendors"),
        pytest.param(("1", "37"), CheckState.OK, id="newest"),
        pytest.param(("1", "38"), CheckState.WARNING, id="newer-than-tried"),
        pytest.param(("", ""), CheckState.MISSING, id="no-version"),
    ],
)
def test_versions(version, verdict):
    assert command.judge_version(ServerVersion(major=version[0], minor=version[1])).state is verdict


@for_each_case(
    [
        ("containerd://2.1.0", True),
        ("containerd://1.7.27", False),
        ("containerd://2.1.0-rc.1", True),
        ("cri-o://1.33.1", True),
        ("cri-o://1.22.0", False),
        ("kwok-v0.8.0", None),
        ("docker://27.0", None),
        ("", None),
    ]
)
def test_runtimes_that_know_cdi(runtime, on):
    assert command.has_cdi_by_default(runtime) is on


@pytest.mark.parametrize(
    ("nodes", "verdict"),
    [
        pytest.param({}, CheckState.UNKNOWN, id="none"),
        pytest.param({"containerd://2.1.0": 3}, CheckState.OK, id="all-new"),
        pytest.param({"containerd://2.1.0": 3, "containerd://1.7.0": 1}, CheckState.WARNING, id="one-old"),
        pytest.param({"other": 3}, CheckState.UNKNOWN, id="others"),
    ],
)
def test_the_oldest_runtime_decides(nodes, verdict):
    assert command.judge_runtimes(Counter(nodes)).state is verdict


NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        pytest.param(2, CheckState.OK, id="together"),
        pytest.param(30, CheckState.WARNING, id="ahead"),
        pytest.param(-30, CheckState.WARNING, id="behind"),
    ],
)
def test_clocks_that_are_apart(ahead, expected):
    assert command.judge_skew(NOON, NOON + timedelta(seconds=ahead)).state is expected


@pytest.mark.parametrize(
    ("served", "presence", "verdict"),
    [
        pytest.param((False, False), ControllerPresence.ABSENT, CheckState.OK, id="no-migrations"),
        pytest.param((True, False), ControllerPresence.RUNNING, CheckState.MISSING, id="no-reservations"),
        pytest.param((True, True), ControllerPresence.RUNNING, CheckState.OK, id="all-is-there"),
        pytest.param((True, True), ControllerPresence.STALE, CheckState.WARNING, id="the-descheduler-has-stopped"),
        pytest.param((True, True), ControllerPresence.ABSENT, CheckState.WARNING, id="no-descheduler"),
        pytest.param((True, True), ControllerPresence.UNKNOWN, CheckState.UNKNOWN, id="the-lease-is-secret"),
    ],
)
def test_migrations_need_their_kinds_and_a_descheduler(served, presence, verdict):
    lease = ControllerLease(presence=presence, name="dra-reserve/dra-reserve-descheduler", holder="d-0")
    migrations, reservations = served
    found = command.judge_migrations(migrations=migrations, reservations=reservations, lease=lease)
    assert found.state is verdict
    assert (found.remedy is not None) == (verdict in {CheckState.MISSING, CheckState.WARNING})
    assert verdict is not CheckState.OK or not migrations or found.detail == "d-0 is running"


def test_permissions_that_the_descheduler_lacks_are_named():
    lease = ControllerLease(presence=ControllerPresence.RUNNING, name="dra-reserve/dra-reserve-descheduler")
    lacking = (Permission("", "pods/eviction", "create"),)
    found = command.judge_migrations(migrations=True, reservations=True, lease=lease, lacking=lacking)
    assert (found.state, found.detail) == (
        CheckState.WARNING,
        "missing for the descheduler: create pods/eviction",
    )


def test_without_a_date_the_clock_is_unknown():
    assert command.judge_skew(None, NOON).state is CheckState.UNKNOWN


@pytest.mark.parametrize(
    ("stock", "replace", "verdict"),
    [
        (StockControllerState.ON, False, CheckState.OK),
        (StockControllerState.OFF, True, CheckState.OK),
        (StockControllerState.ON, True, CheckState.MISSING),
        (StockControllerState.OFF, False, CheckState.MISSING),
        (StockControllerState.MIXED, True, CheckState.MISSING),
        (StockControllerState.MIXED, False, CheckState.MISSING),
    ],
)
def test_the_stock_controller_must_be_as_the_mode_needs_it(stock, replace, verdict):
    found = stock_controller.judge_stock_controller(
        StockControllerEvidence(state=stock, detail="", certainty=""), replace=replace
    )
    assert found.state is verdict
    assert bool(found.remedy) == (verdict is CheckState.MISSING)


LACKING = MissingPermissions(
    cluster={
        RolePurpose.CLAIMS: [
            Permission("resource.k8s.io", "resourceclaims/binding", "patch"),
            Permission("resource.k8s.io", "resourceclaims/binding", "update"),
            Permission("", "pods", "patch"),
        ]
    },
    namespaced=[Permission("coordination.k8s.io", "leases", "patch", "dra-reserve-controller")],
)


def test_each_missing_right_is_named():
    found = command.judge_rights(LACKING, options())
    assert found.state is CheckState.MISSING
    assert "patch resourceclaims.resource.k8s.io/binding" in found.detail
    assert "patch pods" in found.detail
    assert "patch leases.coordination.k8s.io in namespace dra-reserve" in found.detail


def test_what_a_feature_needs_that_can_be_switched_off_does_not_stand_in_the_way():
    lacking = MissingPermissions(cluster={RolePurpose.EVICTION: [Permission("", "pods", "delete")]}, namespaced=[])
    assert command.judge_rights(lacking, options()).state is CheckState.WARNING


def test_the_manifest_grants_what_is_missing_and_nothing_more():
    documents = list(yaml.safe_load_all(access_review.rbac_manifest(LACKING, CONTROLLER)))
    assert [each["kind"] for each in documents] == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    assert documents[0]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/binding"], "verbs": ["patch", "update"]},
    ]
    assert documents[2]["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["dra-reserve-controller"],
            "verbs": ["patch"],
        }
    ]
    subject = {"kind": "ServiceAccount", "name": "dra-reserve-controller", "namespace": "dra-reserve"}
    assert documents[1]["subjects"] == documents[3]["subjects"] == [subject]
    assert documents[2]["metadata"]["namespace"] == "dra-reserve"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(access_review.rbac_manifest(LACKING, ReviewedUser(name="jane")), id="another-account"),
        pytest.param(
            access_review.rbac_manifest(
                MissingPermissions(cluster={RolePurpose.EVICTION: [Permission("", "pods", "list")]}, namespaced=[]),
                CONTROLLER,
            ),
            id="other-rights",
        ),
    ],
)
def test_what_is_granted_later_takes_back_nothing_that_was_granted_before(other):
    """`kubectl apply` replaces the rules and subjects of a role of the same name."""
    before, after = (
        list(yaml.safe_load_all(text)) for text in (access_review.rbac_manifest(LACKING, CONTROLLER), other)
    )
    names = [{(each["kind"], each["metadata"]["name"]) for each in found} for found in (before, after)]
    assert names[0].isdisjoint(names[1])
    assert before == list(yaml.safe_load_all(access_review.rbac_manifest(LACKING, CONTROLLER)))


@pytest.mark.parametrize(
    ("asked", "printed"),
    [
        pytest.param(
            {},
            "kubectl dra preflight --as system:serviceaccount:dra-reserve:dra-reserve-controller --missing-rights "
            "| kubectl apply -f -",
            id="the-installation",
        ),
        pytest.param(
            {"namespace": "elsewhere", "replace_mode": True, "identity": ReviewedUser(name="Jane Doe")},
            "kubectl dra preflight --mode replace --as 'Jane Doe' --lease-namespace elsewhere --missing-rights "
            "| kubectl apply -f -",
            id="another-account-mode-and-namespace",
        ),
        pytest.param(
            {"koordinator": True},
            "kubectl dra preflight --koordinator --as system:serviceaccount:dra-reserve:dra-reserve-controller "
            "--missing-rights | kubectl apply -f -",
            id="for-koordinator",
        ),
    ],
)
def test_the_command_that_is_printed_asks_what_was_asked(asked, printed):
    assert command.judge_rights(LACKING, options(**asked)).remedy == SafeCommand(printed)


def test_whoever_asks_for_themselves_gets_no_command_that_cannot_work():
    """`preflight --self --missing-rights` was printed, and refuses: it does not know whom to grant rights."""
    assert isinstance(command.judge_rights(LACKING, options(identity=ReviewedUser())).remedy, WeighedChoice)


@pytest.mark.parametrize(
    ("asked", "installed", "verdict"),
    [
        pytest.param({}, False, CheckState.WARNING, id="the-controller-before-the-installation"),
        pytest.param({}, True, CheckState.MISSING, id="the-controller-of-an-installation"),
        pytest.param({"identity": ReviewedUser(name="jane")}, False, CheckState.MISSING, id="another-account"),
    ],
)
def test_no_command_grants_a_role_in_a_namespace_that_does_not_exist(asked, installed, verdict):
    """The printed command failed on the missing namespace, and left a ClusterRole and a binding behind."""
    found = command.judge_rights(LACKING, options(**asked), installed=installed, namespace_exists=False)
    assert found.state is verdict
    assert not isinstance(found.remedy, SafeCommand)


def test_rights_are_not_printed_for_a_namespace_that_does_not_exist(tmp_path, monkeypatch):
    async def lacks(*_arguments):
        return LACKING

    monkeypatch.setattr(command, "_find_missing_permissions", lacks)
    with served(tmp_path, Dialect.STOCK) as kubeconfig:
        done = CliRunner().invoke(main, ["preflight", "--missing-rights", f"--kubeconfig={kubeconfig}"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "namespace dra-reserve: not found, so nothing is printed" in done.stderr


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("system:serviceaccount:a:b", ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]),
        ("jane", ["system:authenticated"]),
    ],
)
def test_a_user_is_asked_for_with_the_groups_that_the_server_gives_it(name, groups):
    assert ReviewedUser(name=name).groups == groups


async def test_the_trial_tells_who_makes_claims_and_leaves_nothing(connection, monkeypatch):
    monkeypatch.setattr(stock_controller_reader, "CLAIM_WAIT", 0.3)
    assert await stock_controller_reader.find_claim_creator(connection.client) is None
    left = [
        item.metadata.name
        async for page in connection.client.list_pages(NAMESPACES, PartialObjectMetadata)
        for item in page.items
        if item.metadata.name.startswith("dra-reserve-probe") and not item.metadata.deleting
    ]
    assert left == []


@pytest.mark.parametrize("kind", [CLAIMS, SLICES], ids=lambda kind: kind.plural)
async def test_looking_changes_nothing(connection, kind):
    before = await connection.client.current_resource_version(kind)
    await command.run_checks(connection, options())
    assert await connection.client.current_resource_version(kind) == before
