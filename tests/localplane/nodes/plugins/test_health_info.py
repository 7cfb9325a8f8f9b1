"""Which health service a kubelet speaks with a plugin."""

import pytest

from dra.model.releases import Release
from dra.wire.devicehealth import DraResourceHealthVersion
from localplane.nodes.plugins.health_info import health_service_version

DRA = "v1.DRAPlugin"


@pytest.mark.parametrize(
    ("offered", "old", "new"),
    [
        pytest.param(
            [DRA, DraResourceHealthVersion.V1ALPHA1, DraResourceHealthVersion.V1],
            DraResourceHealthVersion.V1,
            DraResourceHealthVersion.V1,
            id="both",
        ),
        pytest.param(
            [DRA, DraResourceHealthVersion.V1ALPHA1],
            DraResourceHealthVersion.V1ALPHA1,
            DraResourceHealthVersion.V1ALPHA1,
            id="v1alpha1",
        ),
        pytest.param([DRA], DraResourceHealthVersion.V1ALPHA1, None, id="none-was-told-of"),
    ],
)
def test_a_stream_is_opened_in_the_newest_version_that_a_plugin_tells_of(offered, old, new):
    assert (
        health_service_version(offered, release=Release.V1_36),
        health_service_version(offered, release=Release.V1_37),
    ) == (old, new)
