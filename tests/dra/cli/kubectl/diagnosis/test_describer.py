"""What is said of a workload is what is known of it."""

import msgspec
import pytest

from dra.cli.kubectl.diagnosis import describer
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.snapshot import ReferencedWorkload, UnreadResource
from tests.dra.engine.diagnosis.cluster_states import SOMEBODY, claim, cluster_state, pod, snapshot, workload

ENTERED = {"reserve.dra/entered-allocation": "", "reserve.dra/reserved-for-any-pod": "true"}


def told(reference, *, workloads, entered=False):
    from dra.model.workload_reservations import allocation_digest  # noqa: PLC0415 - of the very allocation

    notes = {"reserve.dra/reserved-for": reference}
    plain = claim("c", "n1/gpu-0", annotations=notes)
    if entered:
        view = cluster_state(plain).view(("ml", "c"))
        notes |= ENTERED | {"reserve.dra/entered-allocation": allocation_digest(view.allocation)}
        plain = claim("c", "n1/gpu-0", annotations=notes)
    found = cluster_state(plain, pods=(pod("a", "c", on="n1"),), workloads=workloads)
    lines = [*describer.describe_claim(claims.explain(found, ("ml", "c")))]
    return next(line for line in lines if line.startswith("  reserved"))


NO_KIND = ReferencedWorkload(resource="jobs", group="", namespace="ml", name="train", phase=WorkloadPhase.NO_KIND)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(
            told("jobs.batch/train", workloads=(workload(WorkloadPhase.ABSENT, uid=""),)),
            "does not exist yet",
            id="not-there-yet",
        ),
        pytest.param(
            told("jobs/train", workloads=(NO_KIND,)), "the API server does not serve this kind", id="no-such-kind"
        ),
        pytest.param(
            told("jobs.batch/train", workloads=(workload(WorkloadPhase.PRESENT),), entered=True),
            "its entry was removed from the list",
            id="let-go-by-somebody",
        ),
    ],
)
def test_what_is_said_of_a_workload(line, said):
    assert said in line
    assert "let go by its controller" not in line, "nobody saw who did"


GAPS = (
    UnreadResource(resource="nodes", why="no permission to list them"),
    UnreadResource(resource="pods", why="they cannot be decoded"),
    UnreadResource(resource="pods", why="they cannot be decoded"),
)
HISTORY = "  unknown   past entries and deallocations: only a running controller knows (c-1 is running)"


@pytest.mark.parametrize(
    ("gaps", "verbose", "lines"),
    [
        pytest.param((), False, [], id="all-was-read"),
        pytest.param(GAPS, False, ["  unknown   not read: nodes, pods; -v shows why"], id="gaps-in-one-line"),
        pytest.param((), True, [HISTORY], id="history-for-those-who-ask"),
        pytest.param(
            GAPS,
            True,
            [
                "  unknown   nodes: no permission to list them",
                "  unknown   pods: they cannot be decoded (and 1 more)",
                HISTORY,
            ],
            id="each-gap-with-its-reason",
        ),
    ],
)
def test_what_is_unknown_is_told_in_one_line_and_in_full_to_those_who_ask(gaps, verbose, lines):
    found = msgspec.structs.replace(snapshot(leader=SOMEBODY), gaps=gaps)
    assert [*describer.unknown_lines(found, verbose=verbose)] == lines
