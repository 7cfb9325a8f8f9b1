"""A server for each test."""

import pytest

from tests.localplane.crds.example import CustomResourceApi


@pytest.fixture
def api():
    return CustomResourceApi()
