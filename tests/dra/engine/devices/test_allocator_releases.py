"""Which release of the allocator an API server has; what the releases allocate is in allocator/test_releases.py."""

import pytest

from dra.engine.devices.allocator_releases import RELEASE_1_37, RELEASE_1_38, allocator_release
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param("v1.34.9", RELEASE_1_37, id="older"),
        pytest.param("v1.37.2-gke.1000", RELEASE_1_37, id="1.37-of-a-provider"),
        pytest.param("v1.38.0-beta.0", RELEASE_1_38, id="1.38-before-its-release"),
        pytest.param("1.38.1", RELEASE_1_38, id="without-the-letter"),
        pytest.param("v1.40.0+k3s1", RELEASE_1_38, id="newer"),
        pytest.param("v2.0.0", RELEASE_1_37, id="another-major-version"),
        pytest.param("", RELEASE_1_37, id="not-known"),
        pytest.param("v1." + "9" * 5000, RELEASE_1_38, id="no-version-of-that-length"),
    ]
)
def test_the_version_of_the_server_tells_the_release(server, release):
    assert allocator_release(server) == release
