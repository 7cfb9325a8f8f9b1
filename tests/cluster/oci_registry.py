"""A registry of images and charts on a loopback port, with its content in a folder."""

from __future__ import annotations

import contextlib
import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import yaml

from tests.cluster import binaries, ports
from tests.cluster.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Serve a registry, as plain HTTP, while the block runs; yield its address, such as 127.0.0.1:20000."""
    (port,) = ports.free(1)
    address = f"{ports.LOOPBACK}:{port}"
    configuration = {
        "version": 0.1,
        "log": {"accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "content")}},
        "http": {"addr": address},
    }
    (folder / "registry.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    process = Process(
        name="registry",
        command=[str(binaries.build(binaries.registry())), str(folder / "registry.yaml")],
        log=folder / "registry.log",
        env=os.environ | {"OTEL_TRACES_EXPORTER": "none"},
        ready=lambda: _answers(f"http://{address}/v2/"),
    )
    process.start()
    try:
        yield address
    finally:
        process.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own server
            return int(answer.status) == 200
    except (urllib.error.URLError, ConnectionError):
        return False
