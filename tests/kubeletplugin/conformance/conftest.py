import pytest

from tests.kubeletplugin.node import temporary


@pytest.fixture
async def node():
    async with temporary() as found:
        yield found
