"""As in tests/localplane: modules that say ``VIRTUAL_TIME = True`` run in virtual time."""

from tests.localplane.conftest import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
