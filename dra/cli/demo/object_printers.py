"""Runs kubectl commands and shows their output; without kubectl, an own printer shows the same.

The output does not differ, because the API server makes the table.
"""

import asyncio
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from typing import Any, Final, Protocol

import msgspec

from dra.cli.demo.demo_plane import DemoPlane
from dra.cli.demo.screen import Screen
from dra.kube.errors import ApiError

_COLLECTION_PATHS: Final = {
    "resourceclaims": "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
    "jobs": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "pods": "/api/v1/namespaces/{namespace}/pods",
}


class ObjectPrinter(Protocol):
    """A printer that shows objects of a plane."""

    async def print_table(self, plane: DemoPlane, kind: str, *, namespace: str) -> None:
        """Show the objects of a kind as a table."""
        ...

    async def print_field(self, plane: DemoPlane, kind: str, name: str, *, namespace: str, field: str) -> None:
        """Show one field of an object: ``status.reservedFor``."""
        ...


class KubectlPrinter:
    """The printer that runs the installed kubectl."""

    def __init__(self, program: str, screen: Screen) -> None:
        self._program = program
        self._screen = screen

    async def print_table(self, plane: DemoPlane, kind: str, *, namespace: str) -> None:
        """Show the objects of a kind as a table."""
        await self._run(plane, "get", kind, "-n", namespace)

    async def print_field(self, plane: DemoPlane, kind: str, name: str, *, namespace: str, field: str) -> None:
        """Show one field of an object."""
        await self._run(plane, "get", kind.removesuffix("s"), name, "-n", namespace, "-o", f"jsonpath={{.{field}}}")

    async def _run(self, plane: DemoPlane, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
        )
        output, _ = await process.communicate()
        self._screen.command(" ".join(("kubectl", *arguments)), output.decode(errors="replace"))


class ApiPrinter:
    """The printer that reads the API and prints what kubectl would, where kubectl is not installed."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    async def print_table(self, plane: DemoPlane, kind: str, *, namespace: str) -> None:
        """Show the objects of a kind as a table."""
        try:
            table = await plane.table(_COLLECTION_PATHS[kind].format(namespace=namespace))
            output = align_table(table)
        except ApiError as error:
            output = str(error)
        self._screen.command(f"kubectl get {kind} -n {namespace}   # asked over the API: no such program here", output)

    async def print_field(self, plane: DemoPlane, kind: str, name: str, *, namespace: str, field: str) -> None:
        """Show one field of an object."""
        value: Any = await plane.request("GET", f"{_COLLECTION_PATHS[kind].format(namespace=namespace)}/{name}")
        for step in field.split("."):
            value = value.get(step, {})
        command = f"kubectl get {kind.removesuffix('s')} {name} -n {namespace} -o jsonpath={{.{field}}}"
        self._screen.command(command, msgspec.json.encode(value, order="sorted").decode())


def create_printer(screen: Screen) -> ObjectPrinter:
    """Return a printer that runs kubectl if it is installed, else a printer with the same output."""
    program = shutil.which("kubectl")
    return ApiPrinter(screen) if program is None else KubectlPrinter(program, screen)


def align_table(table: dict[str, Any]) -> str:
    """Return a Table as kubectl prints it: the columns of priority 0, three spaces between them."""
    shown = [n for n, column in enumerate(table["columnDefinitions"]) if not column.get("priority")]
    head = [table["columnDefinitions"][n]["name"].upper() for n in shown]
    rows = [head, *([str(row["cells"][n]) for n in shown] for row in table.get("rows") or ())]
    widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
