import shutil
import tempfile
from pathlib import Path

import pytest

from tests.kubeletplugin.node import Node


@pytest.fixture
def short_path():
    """A folder whose path leaves room for sockets; pytest's own are long."""
    path = Path(tempfile.mkdtemp(prefix="kp-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def node(short_path):
    found = Node(short_path)
    await found.create()
    return found
