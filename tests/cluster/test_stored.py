"""What is read of stored objects: which version of the API they are stored in."""

import pytest

from tests.cluster import stored

CLAIM = b"k8s\0\x0a\x25\x0a\x12resource.k8s.io/v1\x12\x0dResourceClaim\x12\x00"


@pytest.mark.parametrize(
    ("value", "version"),
    [
        pytest.param(CLAIM, "resource.k8s.io/v1", id="protobuf"),
        pytest.param(
            b'{"apiVersion":"example.com/v1","kind":"Widget"}', "example.com/v1", id="json-of-custom-resources"
        ),
        pytest.param(b'{"kind":"Widget"}', "", id="json-without-a-version"),
        pytest.param(b"\0\1\2", "", id="something-else"),
    ],
)
def test_the_version_of_a_stored_object(value: bytes, version: str) -> None:
    assert stored.api_version(value) == version
