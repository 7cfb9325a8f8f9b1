"""A server for each test."""

import pytest

from tests.dra.local.crds.example import Api


@pytest.fixture
def api():
    return Api()
