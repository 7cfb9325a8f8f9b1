"""The same cluster as for `kubectl dra migrate`: an API server with the kind and two nodes."""

from tests.dra.cli.kubectl.migrate.conftest import pytest_asyncio_loop_factories, site

__all__ = ["pytest_asyncio_loop_factories", "site"]
