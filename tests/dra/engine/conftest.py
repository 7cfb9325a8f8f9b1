import pytest

from dra.engine.world import World


@pytest.fixture
def world():
    return World()
