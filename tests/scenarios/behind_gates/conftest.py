"""In the place of the session's cluster: one with features that are off by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.scenarios import installation
from tests.scenarios.conftest import SOUND_NODES
from tests.scenarios.resources import DEVICE_TAINT_RULES, POD_GROUPS
from tests.scenarios.target import Mode, Place, Target

GATES: Final = ("DRADeviceTaintRules", "GenericWorkload", "DRAWorkloadResourceClaims")
SERVED: Final = tuple(f"{kind.api_version}=true" for kind in (DEVICE_TAINT_RULES, POD_GROUPS))


@pytest.fixture(scope="package")
def target() -> Iterator[Target]:
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("these features are switched on at the start of a cluster")
    options = Options(
        controllers=WITHOUT_CLAIM_CONTROLLER,
        nodes=SOUND_NODES,
        feature_gates=dict.fromkeys(GATES, True),
        apiserver_flags=(f"--runtime-config={','.join(SERVED)}",),
    )
    with Cluster(options) as cluster:
        admin, folder = cluster.admin_kubeconfig, cluster.folder
        installation.install(admin)
        installation.guard(admin)
        yield Target(
            mode=Mode.REPLACE,
            admin=admin,
            controller=installation.controller_kubeconfig(admin, folder.path),
            folder=folder,
            own=cluster,
        )
