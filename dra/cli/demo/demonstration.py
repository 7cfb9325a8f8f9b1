"""Runs the demonstration of ``dra-reserve demo``."""

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click

from dra.cli.demo import chapters, object_printers
from dra.cli.demo.chapters import DemoScene, DemoStepError
from dra.cli.demo.demo_plane import DemoPlane, DemoPlaneError
from dra.cli.demo.screen import Screen
from dra.cli.demo.write_history import WriteHistory
from dra.cli.installed_commands import dra_reserve_command, path_export
from dra.cli.local import detached_plane
from dra.cli.local.controller_process import DEFAULT_MODE, MODE_NOTES
from dra.cli.local.plane_folder import DEFAULT_FOLDER, PlaneFolder
from dra.cli.server_process import TERMINAL_STOP_SIGNALS, cancel_on_signals
from dra.kube.clock import SYSTEM
from dra.kube.errors import ApiError

NODE_COUNT: Final = 3
DEVICES_PER_NODE: Final = 8

EXIT_CODE_INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells set it."""


def run_demo(pods: int, seconds: float, *, keep: bool) -> None:
    """Run ``dra-reserve demo``; the declaration describes the options."""
    screen = Screen()
    screen.say("dra-reserve: devices for workloads. Three nodes, no cluster; Ctrl-C stops the demo and cleans up.")
    if keep and PlaneFolder(DEFAULT_FOLDER).is_in_use:
        raise click.ClickException(
            f"folder {DEFAULT_FOLDER.absolute()}: a plane already runs here; --keep needs this folder. Stop it first: "
            f"{dra_reserve_command()} local down"
        )
    folder = Path(tempfile.mkdtemp(prefix="dra-demo-"))
    try:
        well = asyncio.run(_run_demo(screen, folder, pods=pods, seconds=seconds, keep=keep))
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.close()
        screen.say("Interrupted; all processes were stopped.")
        raise SystemExit(EXIT_CODE_INTERRUPTED) from None
    except BaseExceptionGroup as errors:
        screen.close()
        raise click.ClickException(str(errors.exceptions[0])) from errors
    except (DemoStepError, DemoPlaneError, detached_plane.PlaneStartError, ApiError) as error:
        screen.close()
        raise click.ClickException(str(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not well:
        raise click.ClickException("the audit has found violations, see above: this is a bug of dra-reserve")


async def _run_demo(screen: Screen, folder: Path, *, pods: int, seconds: float, keep: bool) -> bool:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - asyncio.run
    cancel_on_signals(task, TERMINAL_STOP_SIGNALS)
    began = SYSTEM.now()
    show = object_printers.create_printer(screen)
    async with AsyncExitStack() as stack:
        kep = DemoPlane(folder / "kep", api="kep", nodes=NODE_COUNT, devices=DEVICES_PER_NODE)
        path = DEFAULT_FOLDER.absolute() if keep else folder / "stock"
        stock = DemoPlane(path, api="stock", nodes=NODE_COUNT, devices=DEVICES_PER_NODE, detached=keep)
        for plane in (kep, stock):
            stack.push_async_callback(plane.stop)
        screen.title("Two control planes: one with the API of KEP-5194, one with that of Kubernetes 1.36")
        await asyncio.gather(kep.start(), stock.start())
        screen.good(
            f"Started in {SYSTEM.now() - began:.1f} s: API server, scheduler, {NODE_COUNT} nodes, dra-reserve "
            f"controller in mode {DEFAULT_MODE}."
        )
        screen.say(MODE_NOTES[DEFAULT_MODE])
        scenes = [
            DemoScene(
                plane=plane,
                history=await stack.enter_async_context(WriteHistory(plane.client()).watching()),
                screen=screen,
                show=show,
                pods=pods,
                seconds=seconds,
            )
            for plane in (kep, stock)
        ]
        await chapters.show_kep_field(scenes[0])
        await chapters.show_annotation(scenes[1])
        await chapters.show_failures(scenes[1])
        screen.title("The first plane again")
        await chapters.show_next_claim(scenes[0])
        well = await chapters.show_safety_check(scenes, screen)
        screen.say(f"The demo took {SYSTEM.now() - began:.0f} s.")
        if keep:
            stock.keep_running()
            _print_next_steps(screen, stock)
    return well


def _print_next_steps(screen: Screen, plane: DemoPlane) -> None:
    screen.title("The plane keeps running. Try:")
    screen.code(
        (
            f"export KUBECONFIG={plane.kubeconfig}",
            *path_export(),
            "kubectl get resourceclaims,jobs -n demo",
            "kubectl describe resourceclaim again -n demo",
            "kubectl dra explain claim again -n demo",
            f"{dra_reserve_command()} local status",
            f"{dra_reserve_command()} local down",
        )
    )
