"""Implements ``kubectl dra ui``."""

import asyncio
import gc
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import click

from dra.cli.kubectl.connection import connect, error_text
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.cli.page.browser import open_browser
from dra.cli.page.cluster_feed import ClusterFeed, bundle_feed
from dra.cli.page.own_feed import own_feed
from dra.cli.page.page_server import serve_page
from dra.kube.errors import ApiError


def run_page(*, source: SnapshotSource, port: int, no_browser: bool) -> None:
    """Run ``kubectl dra ui``; the declaration describes the options."""
    gc.enable()  # the page runs without end, so garbage must be collected
    try:
        with tempfile.TemporaryDirectory(prefix="kubectl-dra-ui-") as folder:

            def show(url: str) -> None:
                click.echo(f"The page is at {url}")
                sys.stdout.flush()
                click.echo("Press Ctrl-C to stop.", err=True)
                if not no_browser and not open_browser(url, Path(folder)):
                    click.echo("No browser was found: open the link yourself.", err=True)

            asyncio.run(serve(source, port=port, on_url=show))
    except* ApiError as failures:
        raise FailedError(error_text(_first_api_error(failures))) from failures
    except* KeyboardInterrupt:
        raise SystemExit(0) from None


async def serve(source: SnapshotSource, *, port: int, on_url: Callable[[str], object]) -> None:
    """Serve the page until cancelled and call ``on_url`` with its link; raise ApiError, FailedError."""
    async with _feed(source) as feed:
        await feed.listed.wait()
        try:
            async with serve_page(feed, port=port, secret=secrets.token_urlsafe(32)) as url:
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
