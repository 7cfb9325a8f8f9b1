"""Which health service a kubelet speaks with a plugin."""

import pytest

from dra.local.nodes.plugins.health import chosen
from dra.local.schemas.releases import Release
from dra.wire.devicehealth import Version

DRA = "v1.DRAPlugin"


@pytest.mark.parametrize(
    ("told", "old", "new"),
    [
        pytest.param([DRA, Version.V1ALPHA1, Version.V1], Version.V1, Version.V1, id="both"),
        pytest.param([DRA, Version.V1ALPHA1], Version.V1ALPHA1, Version.V1ALPHA1, id="v1alpha1"),
        pytest.param([DRA], Version.V1ALPHA1, None, id="none-was-told-of"),
    ],
)
def test_a_stream_is_opened_in_the_newest_version_that_a_plugin_tells_of(told, old, new):
    assert (chosen(told, release=Release.V1_36), chosen(told, release=Release.V1_37)) == (old, new)
