"""The jobs that are created for pods, and their names."""

import pytest

from dra.api.migration.model import parse_pod_migration_job
from dra.engine.migration.job_manifests import MigrationRequest, next_job_name, requested_job
from dra.model.meta import ObjectMeta, Uid


def pod(name="web-1", uid="0a1b2c3d-4e5f"):
    return ObjectMeta(namespace="shop", name=name, uid=Uid(uid))


@pytest.mark.parametrize(
    ("given", "taken", "name"),
    [
        pytest.param(pod(), (), "web-1-0a1b2c3d", id="first"),
        pytest.param(pod(), ("web-1-0a1b2c3d",), "web-1-0a1b2c3d-2", id="second"),
        pytest.param(pod(), ("web-1-0a1b2c3d", "web-1-0a1b2c3d-2"), "web-1-0a1b2c3d-3", id="third"),
        pytest.param(pod("a" * 199 + ".b"), (), "a" * 199 + "-0a1b2c3d", id="long-name-without-a-dot-at-the-end"),
    ],
)
def test_a_name_is_the_pods_and_a_number_counts_the_tries(given, taken, name):
    assert next_job_name(given, taken) == name


def test_a_job_has_only_the_options_that_were_given():
    plain = parse_pod_migration_job(requested_job(pod(), MigrationRequest(), name="j"))
    assert (plain.spec.mode, plain.spec.ttl) == (None, None)
    given = parse_pod_migration_job(requested_job(pod(), MigrationRequest(mode="EvictDirectly", ttl="1m"), name="j"))
    assert (given.spec.mode, given.spec.ttl) == ("EvictDirectly", 60 * 10**9)
    assert given.spec.pod_ref.uid == "0a1b2c3d-4e5f"
