"""Implements ``kubectl dra ui``."""

import asyncio
import gc
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click

from dra.cli.kubectl.connection import connect, error_text
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.history_flags import PrometheusFlags
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.cli.page.browser import open_browser
from dra.cli.page.cluster_feed import ClusterFeed, bundle_feed
from dra.cli.page.own_feed import own_feed
from dra.cli.page.page_server import serve_page
from dra.cli.page.use_sources import PrometheusUse, SeenUse, UseSource
from dra.cli.prometheus import PrometheusError
from dra.engine.device_usage.promql import MalformedLabelError, selector
from dra.kube.errors import ApiError
from dra.kube.tasks import background_task


def run_page(*, source: SnapshotSource, port: int, no_browser: bool, prometheus: PrometheusFlags) -> None:
    """Run ``kubectl dra ui``; the declaration describes the options."""
    if prometheus.url is not None and source.bundle_path is not None:
        raise click.UsageError("--prometheus does not work with --from: a bundle is of one moment")
    use = named_prometheus(prometheus)
    gc.enable()  # the page runs without end, so garbage must be collected
    try:
        with tempfile.TemporaryDirectory(prefix="kubectl-dra-ui-") as folder:

            def show(url: str) -> None:
                click.echo(f"The page is at {url}")
                sys.stdout.flush()
                click.echo("Press Ctrl-C to stop.", err=True)
                if not no_browser and not open_browser(url, Path(folder)):
                    click.echo("No browser was found: open the link yourself.", err=True)

            asyncio.run(serve(source, port=port, on_url=show, use=use))
    except* ApiError as failures:
        raise FailedError(error_text(_first_api_error(failures))) from failures
    except* KeyboardInterrupt:
        raise SystemExit(0) from None


def named_prometheus(flags: PrometheusFlags) -> PrometheusUse | None:
    """Return the Prometheus that the user has named; raise FailedError if its address or a label is none."""
    if flags.url is None:
        return None
    try:
        selector(flags.labels, any_of={})
        return PrometheusUse(flags.address(), labels=flags.labels, tells_why=True)
    except (PrometheusError, MalformedLabelError) as error:
        raise FailedError(str(error)) from error


async def serve(
    source: SnapshotSource, *, port: int, on_url: Callable[[str], object], use: PrometheusUse | None = None
) -> None:
    """Serve the page until cancelled and call ``on_url`` with its link; raise ApiError, FailedError.

    ``use``: knows the use of devices over time; None: the page remembers what it sees, and nothing of a bundle.
    """
    async with _feed(source) as feed, AsyncExitStack() as stack:
        await feed.listed.wait()
        known: UseSource | None = use
        if known is None and source.bundle_path is None:
            known = seen = SeenUse(lambda: feed)
            await stack.enter_async_context(background_task(seen.run(), name="use of devices"))
        try:
            async with serve_page(feed, port=port, secret=secrets.token_urlsafe(32), use=known) as url:
                on_url(url)
                await asyncio.Event().wait()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise FailedError(f"port {port}: {why}; choose another with --port") from error


@asynccontextmanager
async def _feed(source: SnapshotSource) -> AsyncIterator[ClusterFeed]:
    if source.bundle_path is not None:
        snapshot = source.read(SnapshotScope.EVERYTHING)
        async with bundle_feed(snapshot, now=source.now(snapshot)) as feed:
            yield feed
        return
    namespace, lease = source.namespace, source.lease_namespace
    async with (
        connect(source.cluster_flags) as connection,
        own_feed(connection, namespace=namespace, lease_namespace=lease) as feed,
    ):
        yield feed


def _first_api_error(failures: BaseExceptionGroup[ApiError]) -> ApiError:
    failure: BaseException = failures
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    assert isinstance(failure, ApiError)  # noqa: S101 - the group has no others
    return failure
