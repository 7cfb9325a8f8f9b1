"""``dra-reserve demo``."""

import asyncio
import shutil
import signal
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click

from dra.cli.demo import kubectl, story
from dra.cli.demo.histories import History
from dra.cli.demo.planes import Plane, PlaneError
from dra.cli.demo.screen import Screen
from dra.cli.demo.story import Scene, StoryError
from dra.cli.local import background
from dra.cli.local.folder import DEFAULT, Folder
from dra.cli.program import path, program
from dra.kube.clock import SYSTEM
from dra.kube.errors import ApiError

NODES: Final = 3
DEVICES: Final = 8

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""


@click.command()
@click.option("--pods", type=click.IntRange(4, 5000), default=1000, show_default=True, help="Pods of the Jobs.")
@click.option("--seconds", type=click.FloatRange(0.1, 60), default=5, show_default=True, help="How long each pod runs.")
@click.option("--keep", is_flag=True, help="Leave the plane running afterwards, in ./.dra.")
def demo(pods: int, seconds: float, *, keep: bool) -> None:
    """Show what this is good for, on planes of its own: a minute, no cluster, nothing left behind."""
    screen = Screen()
    screen.say("dra-reserve: devices for workloads. Three nodes, no cluster; Ctrl-C ends it and leaves nothing.")
    if keep and Folder(DEFAULT).taken:
        raise click.ClickException(
            f"folder {DEFAULT.absolute()}: a plane runs here already, and goes on; --keep would need its place. "
            f"Stop it first: {program()} local down"
        )
    folder = Path(tempfile.mkdtemp(prefix="dra-demo-"))
    try:
        well = asyncio.run(_play(screen, folder, pods=pods, seconds=seconds, keep=keep))
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.close()
        screen.say("Interrupted; everything that was started has been stopped.")
        raise SystemExit(INTERRUPTED) from None
    except BaseExceptionGroup as errors:
        screen.close()
        raise click.ClickException(str(errors.exceptions[0])) from errors
    except (StoryError, PlaneError, background.StartError, ApiError) as error:
        screen.close()
        raise click.ClickException(str(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not well:
        raise click.ClickException("the audit has found violations, see above: this is a bug of dra-reserve")


async def _play(screen: Screen, folder: Path, *, pods: int, seconds: float, keep: bool) -> bool:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - asyncio.run
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    began = SYSTEM.now()
    show = kubectl.shower(screen)
    async with AsyncExitStack() as stack:
        kep = Plane(folder / "kep", api="kep", nodes=NODES, devices=DEVICES)
        place = DEFAULT.absolute() if keep else folder / "stock"
        stock = Plane(place, api="stock", nodes=NODES, devices=DEVICES, stays=keep)
        for plane in (kep, stock):
            stack.push_async_callback(plane.stop)
        screen.title("Two control planes: one with the API of KEP-5194, one with that of Kubernetes 1.36")
        await asyncio.gather(kep.start(), stock.start())
        screen.good(
            f"They run after {SYSTEM.now() - began:.1f} s: API server, scheduler, {NODES} nodes, our controller."
        )
        scenes = [
            Scene(
                plane=plane,
                history=await stack.enter_async_context(History(plane.client()).watching()),
                screen=screen,
                show=show,
                pods=pods,
                seconds=seconds,
            )
            for plane in (kep, stock)
        ]
        await story.native(scenes[0])
        await story.annotated(scenes[1])
        await story.troubled(scenes[1])
        screen.title("The first plane again")
        await story.inherited(scenes[0])
        well = await story.audited(scenes, screen)
        screen.say(f"All of it took {SYSTEM.now() - began:.0f} s.")
        if keep:
            stock.keep()
            _invite(screen, stock)
    return well


def _invite(screen: Screen, plane: Plane) -> None:
    screen.title("The plane goes on. Try:")
    screen.code(
        (
            f"export KUBECONFIG={plane.kubeconfig}",
            *path(),
            "kubectl get resourceclaims,jobs -n demo",
            "kubectl describe resourceclaim again -n demo",
            "kubectl dra explain claim again -n demo",
            f"{program()} local status",
            f"{program()} local down",
        )
    )
