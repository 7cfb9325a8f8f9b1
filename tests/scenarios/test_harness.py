"""What the harness leaves behind: nothing, however a cluster ends."""

from __future__ import annotations

import pytest

from tests.cluster import keeper
from tests.cluster.cluster import Cluster
from tests.cluster.options import Options
from tests.cluster.processes import ProcessDiedError
from tests.scenarios.target import Capability

pytestmark = [pytest.mark.cluster, pytest.mark.needs(Capability.COMPONENTS)]


def test_stopping_leaves_no_process_and_no_file() -> None:
    cluster = Cluster(Options(nodes=1))
    with cluster:
        folder = cluster.folder.path
        assert len(keeper.processes_of(folder)) == 5
    assert keeper.processes_of(folder) == frozenset()
    assert not folder.exists()


def test_a_start_that_fails_half_way_says_why_and_leaves_nothing() -> None:
    cluster = Cluster(Options(apiserver_flags=("--no-such-flag",)))
    with pytest.raises(ProcessDiedError, match="unknown flag: --no-such-flag"):
        cluster.start()
    assert keeper.processes_of(cluster.folder.path) == frozenset()
    assert not cluster.folder.path.exists()
