"""What an audit tells of Reservations."""

import msgspec
import pytest

from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problems import ProblemCode, ProblemSeverity
from dra.model.meta import ObjectMeta, UnstructuredObject
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.diagnosis.cluster_states import cluster_state


def reserved(*, status=None, **spec):
    made = manifest("r", **spec) | {"status": status or {}}
    made["metadata"] |= {"uid": "uid-r", "resourceVersion": "1"}
    found = UnstructuredObject(metadata=msgspec.convert(made["metadata"], ObjectMeta), content=made)
    return ClusterState(msgspec.structs.replace(cluster_state().snapshot, reservations=(found,)))


OPEN = [{"labelSelector": {"matchLabels": {"app": "web"}}}]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(reserved(owners=OPEN), ["spec.owners[0]"], id="labels-of-any-namespace"),
        pytest.param(reserved(owners=OPEN, status={"phase": "Succeeded"}), [], id="that-is-over"),
        pytest.param(reserved(owners=[OPEN[0] | {"object": {"namespace": "ml"}}]), [], id="labels-of-a-namespace"),
        pytest.param(reserved(owners=OPEN, ttl="never"), [], id="that-cannot-be-read"),
    ],
)
def test_owners_of_any_namespace_are_noted(found, told):
    problems = [each for each in audit(found) if each.code is ProblemCode.OPEN_TO_ALL]
    assert [each.facts_by_name["owners"] for each in problems] == told
    assert {(each.severity, str(each.subject)) for each in problems} <= {(ProblemSeverity.INFO, "reservation r")}
