"""Virtual time and the fixtures of the controller's tests: its loops send these requests."""

from tests.controller.conftest import (  # noqa: F401 - fixtures
    clock,
    lookups_of,
    metrics,
    pytest_asyncio_loop_factories,
    runtime_of,
    world,
    writer_of,
)
