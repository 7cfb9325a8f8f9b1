import msgspec
import pytest

from dra.engine.migration.replicas import Workload, scale_replicas, wanted_replicas
from dra.model.meta import OwnerReference


def owner(kind="ReplicaSet", uid="u"):
    return OwnerReference(api_version="apps/v1", kind=kind, name="web", uid=uid, controller=True)


def workload(**spec):
    return msgspec.convert({"metadata": {"name": "web", "uid": "u"}, "spec": spec}, Workload)


@pytest.mark.parametrize(
    ("given", "named", "expected"),
    [
        pytest.param(workload(replicas=4), owner(), 4, id="replicas"),
        pytest.param(workload(replicas=0), owner(), 0, id="none-wanted"),
        pytest.param(workload(), owner(), 1, id="default"),
        pytest.param(workload(parallelism=3), owner("Job"), 3, id="job"),
        pytest.param(workload(), owner("Job"), 1, id="default-of-a-job"),
        pytest.param(workload(replicas=4), owner(uid="another"), None, id="another-workload-of-the-name"),
    ],
)
def test_replicas_of_kubernetes_own_kinds(given, named, expected):
    assert wanted_replicas(given, named) == expected


@pytest.mark.parametrize(
    ("given", "named", "expected"),
    [
        pytest.param(workload(replicas=7), owner("CloneSet"), 7, id="replicas"),
        pytest.param(workload(), owner("CloneSet"), 0, id="scaled-to-zero"),
        pytest.param(workload(replicas=7), owner("CloneSet", uid="another"), None, id="another-workload-of-the-name"),
    ],
)
def test_replicas_of_other_kinds_are_those_of_their_scale(given, named, expected):
    assert scale_replicas(given, named) == expected
