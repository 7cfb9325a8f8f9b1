"""The real API server takes PodMigrationJobs as people have them, shows them, and refuses those that cannot be meant.

Who may evict a pod may migrate it, and nobody else: the policy `migrations.reserve.dra` asks the server itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
import yaml

from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import KubectlError, kubectl
from tests.cluster.options import Options
from tests.cluster.run_folder import RunFolder
from tests.dra.api.migration.manifests import manifest, with_template
from tests.scenarios import installation, planes
from tests.scenarios.api import Api, ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import POD_MIGRATION_JOBS, RESERVATIONS
from tests.scenarios.target import Capability, Mode, Place, Target, capabilities

DEPLOY: Final = installation.DEPLOY
CRD: Final = DEPLOY.parent / "crds" / "podmigrationjobs.scheduling.koordinator.sh.yaml"
DESCHEDULER: Final = "system:serviceaccount:dra-reserve:dra-reserve-descheduler"
TENANT: Final = "tenant"

PASSED: Final = "descheduler.koordinator.sh/passed-arbitration"
WORKLOAD: Final = "reserve.dra/migrated-workload"
POLICY: Final = "koordinator.sh/evict-policy"
CPU: Final = {"name": "a", "image": "b", "resources": {"requests": {"cpu": "1"}}}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """An API server with the definitions and, if it evaluates any, the policies of deploy/."""
    if Place.chosen() is Place.LOCAL:
        with Cluster(Options(nodes=0)) as cluster:
            admin = cluster.admin_kubeconfig
            for kustomization in (
                installation.OVERLAYS[Mode.ALONGSIDE],
                DEPLOY / "reservations",
                DEPLOY / "descheduler",
            ):
                installation.install(admin, kustomization=kustomization)
            yield Target(mode=Mode.ALONGSIDE, admin=admin, controller=admin, folder=cluster.folder, own=cluster)
        return
    api = Place.chosen().api
    if api is None:
        pytest.skip("installs definitions: a cluster of its own, or a plane")
    with RunFolder() as folder:
        admin = folder.path / "admin.kubeconfig"
        kubeconfig.flatten(admin, kubeconfig=str(planes.start(folder, api=api, reservations=True)))
        kubectl("apply", "--filename", str(CRD), kubeconfig=admin)
        yield Target(mode=Mode.REPLACE, admin=admin, controller=admin, folder=folder, own=None)


@pytest.fixture
async def clean(api: Api) -> AsyncIterator[Api]:
    """The API, without jobs at the end, and with the policy in force, if the server evaluates any."""

    async def in_force() -> bool:
        try:
            await api.request("POST", f"{POD_MIGRATION_JOBS.path()}?dryRun=All", labelled(**{POLICY: "Kill"}))
        except ApiError as error:
            return "must be Eviction, Delete or SoftEviction" in str(error)
        return False

    async def served() -> bool:
        try:
            return not [*await api.all(POD_MIGRATION_JOBS), *await api.all(RESERVATIONS)]
        except ApiError:  # 404 or 429, for some seconds after a definition is new
            return False

    await eventually(served, within=30, saying="the kinds are served")
    if Capability.POLICIES in capabilities(Place.chosen()):
        await eventually(in_force, within=30, saying="the admission policy is in force")
    yield api
    for resource in (POD_MIGRATION_JOBS, RESERVATIONS):
        for each in await api.all(resource):
            await api.delete(resource, each["metadata"]["name"])


def labelled(**labels: str) -> Json:
    made = manifest()
    made["metadata"]["labels"] = labels
    return made


def annotated(**annotations: str) -> Json:
    made = manifest()
    made["metadata"]["annotations"] = annotations
    return made


def referring(**reference: Any) -> Json:
    return manifest(podRef={"namespace": "default", "name": "a"} | reference)


def reserving(**options: Any) -> Json:
    return manifest(reservationOptions=options)


def templated(**spec: Any) -> Json:
    return manifest(**with_template(**spec))


def requesting(**requests: Any) -> Json:
    containers = [{"name": "a", "image": "b", "resources": {"requests": requests}}]
    return templated(template={"spec": {"containers": containers}})


def without_nulls(given: Any) -> Any:
    """Return a value as the API server stores it: a null is an absent field."""
    if isinstance(given, dict):
        return {name: without_nulls(each) for name, each in given.items() if each is not None}
    return given


def create(target: Target, job: Json, *arguments: str) -> str:
    """Create a job with kubectl, which sends what it is given; return why the server refuses; empty if it does not."""
    command = ("create", "--filename=-", "--validate=false", *arguments)
    try:
        kubectl(*command, kubeconfig=target.admin, stdin=yaml.safe_dump(job))
    except KubectlError as refused:
        return str(refused)
    return ""


KOORDINATOR: Final = {
    "the-manual-s": """
        apiVersion: scheduling.koordinator.sh/v1alpha1
        kind: PodMigrationJob
        metadata: {name: migrationjob-demo}
        spec:
          paused: false
          ttl: 5m
          mode: ReservationFirst
          podRef: {namespace: default, name: pod-demo-5f9b977566-c7lvk}
        status: {phase: Pending}
        """,
    "its-descheduler-s": """
        apiVersion: scheduling.koordinator.sh/v1alpha1
        kind: PodMigrationJob
        metadata:
          name: 7b2a8a1c-2c6e-4a5b-8f65-0b6b3d1f4a10
          annotations:
            koordinator.sh/job-created-by: koord-descheduler
            koordinator.sh/evict-reason: node is overutilized, cpu usage(62.10%)>threshold(50.00%)
            koordinator.sh/evict-trigger: LowNodeLoad
        spec:
          paused: null
          mode: ""
          ttl: 5m0s
          podRef:
            apiVersion: v1
            kind: Pod
            namespace: default
            name: web-6b7d8c4f5-x2x2x
            uid: 0c3f1e9a-5f6b-4f0e-9f3c-1d2a3b4c5d6e
            resourceVersion: "4711"
          reservationOptions: null
          deleteOptions: {}
        """,
    "evict-directly": """
        apiVersion: scheduling.koordinator.sh/v1alpha1
        kind: PodMigrationJob
        metadata: {name: direct, labels: {koordinator.sh/evict-policy: Eviction}}
        spec:
          mode: EvictDirectly
          ttl: 0s
          podRef: {namespace: default, name: a}
          deleteOptions: {apiVersion: v1, kind: DeleteOptions, gracePeriodSeconds: 30, propagationPolicy: Background}
        """,
    "with-a-template": """
        apiVersion: scheduling.koordinator.sh/v1alpha1
        kind: PodMigrationJob
        metadata: {name: templated}
        spec:
          podRef: {namespace: default, name: a}
          reservationOptions:
            preemptionOptions: {}
            template:
              metadata: {creationTimestamp: null, labels: {app: a}}
              spec:
                ttl: 10m
                owners:
                - controller: {apiVersion: apps/v1, kind: ReplicaSet, name: a, controller: true, namespace: default}
                template: {spec: {containers: [{name: a, image: b, resources: {requests: {cpu: 500m}}}]}}
        """,
}


@pytest.mark.parametrize("text", KOORDINATOR.values(), ids=KOORDINATOR.keys())
async def test_what_people_have_is_taken_as_it_stands_and_shown(clean: Api, target: Target, text: str) -> None:
    wanted = yaml.safe_load(text)
    name = wanted["metadata"]["name"]
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=text)

    made = await clean.get(POD_MIGRATION_JOBS, name)
    assert made["spec"] == without_nulls(wanted["spec"])
    assert "status" not in made
    shown = kubectl("get", "pmj", name, kubeconfig=target.admin)
    columns = "NAME PHASE STATUS AGE NODE RESERVATION PODNAMESPACE POD NEWPOD TTL"
    assert shown.splitlines()[0].split() == columns.split()
    assert wanted["spec"]["podRef"]["name"] in shown
    assert wanted["spec"].get("ttl", "") in shown


POD: Final = "spec.podRef"
OPTIONS: Final = "spec.reservationOptions"
TEMPLATE: Final = "spec.reservationOptions.template.spec"

MALFORMED: Final = [
    pytest.param(manifest(podRef=None), f"{POD}: Required value", id="no-pod"),
    pytest.param(manifest(podRef={}), f"{POD}.namespace: Required value", id="any-pod"),
    pytest.param(manifest(podRef="default/a"), f"{POD}: Invalid value", id="pod-as-a-text"),
    pytest.param(manifest(podRef={"name": "a"}), f"{POD}.namespace: Required value", id="no-namespace"),
    pytest.param(manifest(podRef={"namespace": "a"}), f"{POD}.name: Required value", id="no-name"),
    pytest.param(referring(name=""), f"{POD}.name: Invalid value", id="empty-name"),
    pytest.param(referring(namespace=""), f"{POD}.namespace: Invalid value", id="empty-namespace"),
    pytest.param(referring(name="Web_1"), f"{POD}.name: Invalid value", id="no-name-of-a-pod"),
    pytest.param(referring(name="default/web"), f"{POD}.name: Invalid value", id="with-its-namespace"),
    pytest.param(referring(name="a" * 254), f"{POD}.name: Too long", id="a-long-name"),
    pytest.param(referring(namespace="kube.system"), f"{POD}.namespace: Invalid value", id="no-name-of-a-namespace"),
    pytest.param(referring(namespace="a" * 64), f"{POD}.namespace: Too long", id="a-long-namespace"),
    pytest.param(referring(name=7), f"{POD}.name: Invalid value", id="a-number"),
    pytest.param(referring(kind="Deployment"), f"{POD}: Invalid value: is not a pod", id="a-workload"),
    pytest.param(referring(uid=7), f"{POD}.uid: Invalid value", id="uid-number"),
    pytest.param(manifest(mode="reservationFirst"), "spec.mode: Unsupported value", id="mode-in-lower-case"),
    pytest.param(manifest(mode="Evict"), "spec.mode: Unsupported value", id="no-such-mode"),
    pytest.param(manifest(mode=1), "spec.mode: Invalid value", id="mode-number"),
    pytest.param(manifest(ttl="1d"), 'spec.ttl: Invalid value: "1d": must be a duration', id="days"),
    pytest.param(manifest(ttl="-5m"), 'spec.ttl: Invalid value: "-5m": must be a duration', id="in-the-past"),
    pytest.param(manifest(ttl=""), 'spec.ttl: Invalid value: "": must be a duration', id="empty-ttl"),
    pytest.param(
        manifest(ttl="five minutes"), 'spec.ttl: Invalid value: "five minutes": must be a duration', id="in-words"
    ),
    pytest.param(manifest(ttl=300), "spec.ttl: Invalid value", id="ttl-number"),
    pytest.param(manifest(ttl="1" * 65), "spec.ttl: Too long", id="a-long-ttl"),
    pytest.param(manifest(paused="yes"), "spec.paused: Invalid value", id="paused"),
    pytest.param(manifest(paused=1), "spec.paused: Invalid value", id="paused-number"),
    pytest.param(reserving(reservationRef={}), f"{OPTIONS}.reservationRef.name: Required", id="any-reservation"),
    pytest.param(
        reserving(reservationRef={"name": ""}), f"{OPTIONS}.reservationRef.name: Invalid", id="no-reservation"
    ),
    pytest.param(
        reserving(reservationRef={"name": "r", "kind": "Pod"}),
        f"{OPTIONS}.reservationRef: Invalid value: is not a Reservation",
        id="another-kind",
    ),
    pytest.param(
        reserving(reservationRef={"name": "r"}, template={"spec": {"ttl": "1h"}}),
        f"{OPTIONS}: Invalid value: give reservationRef",
        id="reference-and-template",
    ),
    pytest.param(
        manifest(mode="EvictDirectly", reservationOptions={"reservationRef": {"name": "r"}}),
        "spec.mode: Invalid value: mode EvictDirectly reserves nothing",
        id="reserve-and-evict-directly",
    ),
    pytest.param(reserving(template="large"), f"{OPTIONS}.template: Invalid value", id="template-as-a-text"),
    pytest.param(
        templated(template={"spec": {"containers": []}}), f"{TEMPLATE}.template: Invalid value", id="no-containers"
    ),
    pytest.param(templated(ttl="1d"), f"{TEMPLATE}.ttl: Invalid value", id="lifetime"),
    pytest.param(templated(expires="tomorrow"), f"{TEMPLATE}.expires: Invalid value", id="expires"),
    pytest.param(templated(owners=[{}]), f"{TEMPLATE}.owners[0]: Invalid value", id="an-owner-that-says-nothing"),
    pytest.param(templated(owners=[{"object": {}}]), f"{TEMPLATE}.owners[0].object: Invalid value", id="any-owner"),
    pytest.param(
        templated(owners=[{"labelSelector": {}}]), f"{TEMPLATE}.owners[0].labelSelector: Invalid", id="any-labels"
    ),
    pytest.param(templated(allocatePolicy="Strict"), f"{TEMPLATE}.allocatePolicy: Unsupported value", id="policy"),
    pytest.param(
        manifest(deleteOptions={"gracePeriodSeconds": -1}), "spec.deleteOptions.gracePeriodSeconds: Invalid", id="grace"
    ),
    pytest.param(
        manifest(deleteOptions={"gracePeriodSeconds": "30s"}),
        "spec.deleteOptions.gracePeriodSeconds: Invalid value",
        id="grace-as-a-duration",
    ),
    pytest.param(
        manifest(deleteOptions={"dryRun": ["All"]}), "spec.deleteOptions: Invalid value: dryRun evicts", id="dry-run"
    ),
    pytest.param(
        manifest(deleteOptions={"propagationPolicy": "background"}),
        "spec.deleteOptions.propagationPolicy: Unsupported value",
        id="propagation",
    ),
]

REFUSED_BY_POLICY: Final = [
    pytest.param(labelled(**{POLICY: "Kill"}), f"metadata.labels[{POLICY}]: must be Eviction", id="no-such-policy"),
    pytest.param(labelled(**{POLICY: "evict"}), f"metadata.labels[{POLICY}]: must be", id="policy-in-lower-case"),
    pytest.param(requesting(cpu="x"), f"{TEMPLATE}.template.spec.containers: cpu: is no amount", id="no-quantity"),
    pytest.param(requesting(memory="-1Gi"), "containers: memory: is no amount", id="negative"),
    pytest.param(requesting(), f"{TEMPLATE}.template.spec.containers: reserves nothing", id="nothing-requested"),
]


@pytest.mark.parametrize(("wrong", "named"), MALFORMED)
async def test_what_cannot_be_meant_is_refused_with_the_field_named(
    clean: Api, target: Target, wrong: Json, named: str
) -> None:
    assert named in create(target, wrong)
    assert await clean.all(POD_MIGRATION_JOBS) == []


@pytest.mark.needs(Capability.POLICIES)
@pytest.mark.parametrize(("wrong", "named"), REFUSED_BY_POLICY)
async def test_what_the_schema_cannot_express_is_refused_with_the_field_named(
    clean: Api, target: Target, wrong: Json, named: str
) -> None:
    assert named in create(target, wrong)
    assert await clean.all(POD_MIGRATION_JOBS) == []


async def test_forty_kinds_of_mistakes_are_known() -> None:
    assert len(MALFORMED) >= 40


async def test_a_job_stays_about_its_pod_and_its_mode(clean: Api) -> None:
    await clean.create(referring(uid="u"))
    for change, named in (
        ({"podRef": {"name": "b"}}, "spec.podRef: Invalid value: name and namespace cannot change"),
        ({"podRef": {"uid": "v"}}, "spec.podRef: Invalid value: uid cannot change"),
        ({"mode": "EvictDirectly"}, "spec.mode: Invalid value: cannot change"),
    ):
        with pytest.raises(ApiError) as refused:
            await clean.patch(POD_MIGRATION_JOBS, "demo", {"spec": change})
        assert named in str(refused.value)
    await clean.patch(POD_MIGRATION_JOBS, "demo", {"spec": {"paused": True}})


MAY_CREATE_JOBS: Final = """
apiVersion: v1
kind: Namespace
metadata: {name: theirs}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: migrate}
rules:
- {apiGroups: [scheduling.koordinator.sh], resources: [podmigrationjobs], verbs: [create, patch, get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: migrate}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: migrate}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: evict, namespace: theirs}
rules:
- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: evict, namespace: theirs}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: evict}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
"""
"""A tenant who may evict the pods of one namespace, and create jobs, whose kind has no namespace."""


def theirs(**more: Any) -> Json:
    made = manifest(podRef={"namespace": "theirs", "name": "a"}, **more.pop("spec", {}))
    made["metadata"] |= more
    return made


@pytest.fixture
async def tenant(clean: Api, target: Target) -> Api:
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=MAY_CREATE_JOBS)
    await eventually(
        lambda: create(target, theirs(), f"--as={TENANT}", "--dry-run=server") == "",
        within=20,
        saying="the tenant's permissions are in force",
    )
    return clean


@pytest.mark.needs(Capability.POLICIES)
@pytest.mark.parametrize(
    ("job", "named"),
    [
        pytest.param(manifest(), "spec.podRef: pod default/pod-demo-0 would be evicted", id="a-pod-of-others"),
        pytest.param(
            theirs(labels={POLICY: "Delete"}),
            "Delete heeds no disruption budget, and tenant may not",
            id="past-budgets",
        ),
        pytest.param(theirs(labels={POLICY: "SoftEviction"}), "SoftEviction annotates pod theirs/a", id="softly"),
        pytest.param(
            theirs(annotations={PASSED: "true"}), f"metadata.annotations[{PASSED}]: the descheduler", id="past-limits"
        ),
        pytest.param(
            theirs(annotations={WORKLOAD: "u"}),
            f"metadata.annotations[{WORKLOAD}]: the descheduler",
            id="at-others-cost",
        ),
        pytest.param(
            theirs(spec=with_template(ttl="24h")), "tenant may not create reservations", id="a-reservation-of-their-own"
        ),
    ],
)
@pytest.mark.usefixtures("tenant")
async def test_who_may_not_do_it_may_not_have_it_done(target: Target, job: Json, named: str) -> None:
    assert named in create(target, job, f"--as={TENANT}")
    assert create(target, job) == "", "an administrator may"


@pytest.mark.needs(Capability.POLICIES)
async def test_a_placeholder_takes_the_permission_to_create_pods_where_it_is(tenant: Api, target: Target) -> None:
    rules = [{"apiGroups": ["scheduling.koordinator.sh"], "resources": ["reservations"], "verbs": ["create"]}]
    await tenant.create(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}
    )
    kubectl("create", "clusterrolebinding", "r", "--clusterrole=r", f"--user={TENANT}", kubeconfig=target.admin)
    pod = {"metadata": {"namespace": "kube-system"}, "spec": {"containers": [CPU]}}
    await eventually(
        lambda: (
            "its placeholder is a pod in namespace kube-system, where tenant may not create pods"
            in create(target, theirs(spec=with_template(template=pod)), f"--as={TENANT}")
        ),
        within=20,
        saying="the reason is the namespace of the placeholder",
    )


@pytest.mark.needs(Capability.POLICIES)
async def test_jobs_that_change_are_judged_anew(tenant: Api, target: Target) -> None:
    await tenant.create(manifest())
    patch = ("patch", "pmj", "demo", "--type=merge", "--patch")
    with pytest.raises(KubectlError) as refused:
        kubectl(*patch, '{"spec": {"paused": true}}', f"--as={TENANT}", kubeconfig=target.admin)
    assert "pod default/pod-demo-0 would be evicted, which tenant may not do" in str(refused.value)


@pytest.mark.needs(Capability.POLICIES)
async def test_the_descheduler_works_with_its_installed_permissions(clean: Api, target: Target) -> None:
    """Its account creates the Reservation of a job where it may not create pods, and no other Reservation."""
    job = await clean.create(manifest())
    uid = job["metadata"]["uid"]
    own = f"--as={DESCHEDULER}"
    patch = ("patch", "pmj", "demo", "--type=merge", own, "--patch")
    for change in (
        f'{{"metadata": {{"annotations": {{"{PASSED}": "true", "{WORKLOAD}": "u"}}}}}}',
        '{"spec": {"podRef": {"uid": "u"}}}',
        f'{{"spec": {{"reservationOptions": {{"reservationRef": {{"name": "{uid}"}}}}}}}}',
    ):
        kubectl(*patch, change, kubeconfig=target.admin)
    reference = {
        "apiVersion": POD_MIGRATION_JOBS.api_version,
        "kind": "PodMigrationJob",
        "name": "demo",
        "uid": uid,
        "controller": True,
    }
    reservation = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": "Reservation",
        "metadata": {"name": uid, "ownerReferences": [reference]},
        "spec": {
            "owners": [{"object": {"namespace": "kube-system", "name": "a"}}],
            "template": {"metadata": {"namespace": "kube-system"}, "spec": {"containers": [CPU]}},
        },
    }
    other = {**reservation, "metadata": {"name": "other", "ownerReferences": [reference]}}
    assert "not the Reservation of a PodMigrationJob" in create(target, other, own)
    assert create(target, reservation, own) == ""
    for refused in (
        ("patch", "pmj", "demo", "--type=merge", "--patch", '{"spec": {"paused": true}}', own),
        ("delete", "pmj", "demo", own),
    ):
        with pytest.raises(KubectlError, match="the descheduler may not"):
            kubectl(*refused, kubeconfig=target.admin)
    kubectl("delete", "rsv", uid, own, kubeconfig=target.admin)
