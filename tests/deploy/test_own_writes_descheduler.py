"""What the account of the descheduler may write: its jobs, their Reservations, its Lease, one annotation of pods."""

from __future__ import annotations

import pytest

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.well_known import ANNOTATION_PASSED_ARBITRATION, ANNOTATION_SOFT_EVICTION
from dra.engine.descheduling.execution import job_manifest
from dra.engine.descheduling.plugin import Verdict
from dra.engine.descheduling.round import Decision
from tests.deploy.admission_requests import annotated, asked, changed, pod
from tests.deploy.judging import judge, policy
from tests.dra.api.migration import manifests as migrations
from tests.dra.engine.descheduling import rounds
from tests.violations import combinations, for_each_case

DESCHEDULER = "system:serviceaccount:dra-reserve:dra-reserve-descheduler"
JOB_UID = "7b2a8a1c-2c6e-4a5b-8f65-0b6b3d1f4a10"


def job(**paths):
    return changed(migration(), **paths)


def migration():
    made = migrations.manifest(mode="", ttl=None)
    made["metadata"] |= {"uid": JOB_UID, "labels": {"app": "a"}, "annotations": {"other": "x"}}
    return made


BEGUN = {"spec__podRef__uid": "u", "spec__ttl": "5m0s", "spec__mode": "ReservationFirst"}
REFERENCE = {"name": JOB_UID, "uid": "v"}
OTHER = {"name": "other", "uid": "w"}


@for_each_case(
    [
        pytest.param(
            job(), job(metadata__annotations={"other": "x", ANNOTATION_PASSED_ARBITRATION: "true"}), id="passes"
        ),
        pytest.param(job(), job(**BEGUN), id="begins"),
        pytest.param(
            job(**BEGUN), job(**BEGUN, spec__reservationOptions__reservationRef=REFERENCE), id="names-its-reservation"
        ),
        pytest.param(
            job(spec__reservationOptions={"template": {}}),
            job(spec__reservationOptions={"template": {}, "reservationRef": REFERENCE}),
            id="names-the-reservation-of-a-template",
        ),
        pytest.param(
            job(**BEGUN, spec__reservationOptions__reservationRef=REFERENCE),
            job(
                **BEGUN,
                spec__reservationOptions__reservationRef={"name": "0f6d1c1e-5a53-4f5e-9a57-2f1f3c8a7d10", "uid": "w"},
            ),
            id="takes-over-the-reservation-of-another-job",
        ),
        pytest.param(job(status={"phase": "Succeeded"}), None, id="deletes-what-has-succeeded"),
        pytest.param(job(status={"phase": "Failed"}), None, id="deletes-what-has-failed"),
    ]
)
def test_the_descheduler_does_its_work(old, new):
    request = asked("DELETE" if new is None else "UPDATE", user=DESCHEDULER)
    assert judge(policy("descheduler/own-writes.yaml", "descheduler-jobs.reserve.dra"), request, obj=new, old=old) == (
        True,
        "",
    )


@for_each_case(
    [
        pytest.param(job(), job(spec__paused=True), "completes", id="pauses"),
        pytest.param(job(**BEGUN), job(**BEGUN | {"spec__ttl": "1h"}), "completes", id="prolongs"),
        pytest.param(job(**BEGUN), job(**BEGUN | {"spec__mode": "EvictDirectly"}), "completes", id="changes-the-mode"),
        pytest.param(job(**BEGUN), job(**BEGUN | {"spec__podRef__uid": "v"}), "completes", id="changes-the-pod"),
        pytest.param(job(), job(spec__podRef__name="other"), "completes", id="names-another-pod"),
        pytest.param(job(), job(spec__podRef__namespace="other"), "completes", id="in-another-namespace"),
        pytest.param(job(), job(spec__deleteOptions={"gracePeriodSeconds": 0}), "completes", id="hurries"),
        pytest.param(job(), job(spec__reservationOptions={"template": {}}), "completes", id="adds-a-template"),
        pytest.param(
            job(spec__reservationOptions={"reservationRef": OTHER}),
            job(spec__reservationOptions={"reservationRef": REFERENCE}),
            "completes",
            id="leaves-the-reservation-of-a-user",
        ),
        pytest.param(job(), job(metadata__labels={"koordinator.sh/evict-policy": "Delete"}), "metadata", id="labels"),
        pytest.param(job(), job(metadata__annotations={}), "metadata", id="takes-annotations-off"),
        pytest.param(job(), job(metadata__finalizers=["a/b"]), "metadata", id="holds-it-back"),
        pytest.param(job(), job(metadata__ownerReferences=[{}]), "metadata", id="gives-it-away"),
        pytest.param(job(status={"phase": "Running"}), None, "has not ended", id="deletes-what-runs"),
        pytest.param(job(), None, "has not ended", id="deletes-what-has-not-begun"),
    ],
)
def test_a_token_of_the_descheduler_does_nothing_else_to_jobs(old, new, text):
    spec = policy("descheduler/own-writes.yaml", "descheduler-jobs.reserve.dra")
    operation = "DELETE" if new is None else "UPDATE"
    passed, said = judge(spec, asked(operation, user=DESCHEDULER), obj=new, old=old)
    assert not passed
    assert said.startswith(f"the descheduler may not {operation} podmigrationjob p: ")
    assert text in said
    assert judge(spec, asked(operation, user="jane"), obj=new, old=old)[0], "others are not limited"


def of_a_round(**paths):
    """Return a job as a round creates it."""
    given = Decision(
        pod=rounds.pod("web"),
        node="n1",
        profile="p",
        plugin="PodLifeTime",
        reason="too old",
        verdict=Verdict(accepted=True, node="n2"),
        receivers=frozenset({"n2"}),
    )
    nodes = {name: {"kubernetes.io/hostname": name} for name in ("n1", "n2", "n3")}
    args = MigrationControllerArgs.model_validate({"approval": "Required"})
    return changed(job_manifest(given, nodes=nodes, args=args, began="2026-11-28T12:00:00Z"), **paths)


AFFINITY = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}
TEMPLATE = "spec__reservationOptions__template"


@for_each_case(
    [
        pytest.param(of_a_round(), True, id="as-a-round-does"),
        pytest.param(of_a_round(spec__reservationOptions=None), True, id="to-any-node"),
        pytest.param(of_a_round(metadata__name="mine"), False, id="another-name"),
        pytest.param(of_a_round(metadata__labels={"koordinator.sh/evict-policy": "Delete"}), False, id="a-policy"),
        pytest.param(of_a_round(metadata__annotations={}), False, id="in-a-persons-name"),
        pytest.param(of_a_round(spec__deleteOptions={"gracePeriodSeconds": 0}), False, id="hurries"),
        pytest.param(of_a_round(spec__reservationOptions={"reservationRef": OTHER}), False, id="takes-a-reservation"),
        pytest.param(of_a_round(**{f"{TEMPLATE}__spec__owners": [{}]}), False, id="for-other-owners"),
        pytest.param(
            of_a_round(**{f"{TEMPLATE}__spec__template__metadata": {"namespace": "x"}}), False, id="in-a-namespace"
        ),
        pytest.param(
            of_a_round(**{f"{TEMPLATE}__spec__template__spec__containers": [{"name": "c"}]}), False, id="containers"
        ),
        pytest.param(of_a_round(**{f"{TEMPLATE}__spec__template__spec__affinity": AFFINITY}), False, id="near-pods"),
    ]
)
def test_a_token_of_the_descheduler_creates_jobs_of_rounds_alone(new, passes):
    new = {**new, "spec": {name: value for name, value in new["spec"].items() if value is not None}}
    spec = policy("descheduler/own-writes.yaml", "descheduler-jobs.reserve.dra")
    passed, said = judge(spec, asked("CREATE", user=DESCHEDULER), obj=new)
    assert (passed, "may not CREATE" in said) == (passes, not passes)
    assert judge(spec, asked("CREATE", user="jane"), obj=new)[0], "others are not limited"


def of_a_job(**changes):
    reference = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "name": "j"}
    return {
        "metadata": {"name": JOB_UID, "ownerReferences": [{**reference, "uid": JOB_UID, "controller": True, **changes}]}
    }


@for_each_case(
    combinations(
        ["CREATE", "DELETE"],
        [
            pytest.param(of_a_job(), True, id="of-a-job"),
            pytest.param(of_a_job(uid="u"), False, id="of-another-job"),
            pytest.param(of_a_job(kind="Job"), False, id="of-another-kind"),
            pytest.param(of_a_job(apiVersion="batch/v1"), False, id="of-another-group"),
            pytest.param(of_a_job(controller=False), False, id="not-controlled"),
            pytest.param({"metadata": {"name": "demo"}}, False, id="of-a-person"),
        ],
    )
)
def test_a_token_of_the_descheduler_is_for_reservations_of_jobs(operation, reservation, passes):
    spec = policy("descheduler/own-writes.yaml", "descheduler-reservations.reserve.dra")
    there = {"old": reservation} if operation == "DELETE" else {"obj": reservation}
    assert judge(spec, asked(operation, user=DESCHEDULER), **there)[0] is passes


@pytest.mark.parametrize(
    ("new", "passes"),
    [
        pytest.param(annotated(**{ANNOTATION_SOFT_EVICTION: "{}"}), True, id="asks-softly"),
        pytest.param(annotated(**{"example.com/x": "1"}), False, id="annotates-for-others"),
        pytest.param(changed(pod(), spec__containers__0__image="evil"), False, id="changes-an-image"),
        pytest.param(changed(pod(), metadata__labels={}), False, id="relabels"),
        pytest.param(changed(pod(), metadata__finalizers=["a/b"]), False, id="holds-it-back"),
        pytest.param(changed(pod(), metadata__ownerReferences=[{}]), False, id="gives-it-away"),
    ],
)
def test_a_token_of_the_descheduler_annotates_pods(new, passes):
    spec = policy("descheduler/own-writes.yaml", "descheduler-pods.reserve.dra")
    passed, said = judge(spec, asked("UPDATE", user=DESCHEDULER), obj=new, old=pod())
    assert passed is passes
    assert ("may not change pod ml/p" in said) is not passes


@pytest.mark.parametrize(("name", "passes"), [("dra-reserve-descheduler", True), ("dra-reserve-controller", False)])
def test_a_token_of_the_descheduler_makes_its_own_lease(name, passes):
    spec = policy("descheduler/own-writes.yaml", "descheduler-leases.reserve.dra")
    assert judge(spec, asked("CREATE", user=DESCHEDULER), obj={"metadata": {"name": name}})[0] is passes
