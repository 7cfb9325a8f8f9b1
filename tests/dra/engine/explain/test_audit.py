"""What an audit tells of Reservations."""

import msgspec
import pytest

from dra.engine.explain.audit import audit
from dra.engine.explain.problems import Grade, Trouble
from dra.engine.explain.scene import Scene
from dra.model.meta import DynamicObject, ObjectMeta
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.explain.scenes import scene


def reserved(*, status=None, **spec):
    made = manifest("r", **spec) | {"status": status or {}}
    made["metadata"] |= {"uid": "uid-r", "resourceVersion": "1"}
    found = DynamicObject(metadata=msgspec.convert(made["metadata"], ObjectMeta), content=made)
    return Scene(msgspec.structs.replace(scene().snapshot, reservations=(found,)))


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
    problems = [each for each in audit(found) if each.trouble is Trouble.OPEN_TO_ALL]
    assert [each.numbers["owners"] for each in problems] == told
    assert {(each.grade, str(each.subject)) for each in problems} <= {(Grade.INFO, "reservation r")}
