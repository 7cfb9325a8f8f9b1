"""Runs `dra-reserve page` as a process with the credentials of an account, and signs clients in with tokens."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy
from tests.scenarios.controller import INSTALLED
from tests.scenarios.metrics import Metrics, parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.run_folder import RunFolder

ACCOUNT: Final = "dra-reserve-page"
AUDIENCE: Final = "dra-reserve-page"
VIEWER: Final = "dra-reserve-page-viewer"


class PageProcess:
    """One page server; `url` is where browsers open the page."""

    def __init__(
        self, folder: RunFolder, kubeconfig: Path, *, name: str = "page", configuration: Mapping[str, Any] | None = None
    ) -> None:
        port, probes, metrics = free(3)
        self.url: Final = f"http://{LOOPBACK}:{port}"
        self._metrics: Final = f"http://{LOOPBACK}:{metrics}/metrics"
        file = folder.path / f"{name}.yaml"
        listeners = {"serve": port, "probes": probes, "metrics": metrics}
        content = {
            **(configuration or {}),
            **{key: {"address": LOOPBACK, "port": value} for key, value in listeners.items()},
            "logging": {"format": "text"},
        }
        file.write_text(json.dumps(content), encoding="utf-8")
        command = [*INSTALLED, "page", f"--kubeconfig={kubeconfig}", f"--config={file}"]
        self.process: Final = folder.process(name, command, ready=partial(healthy, probes, "/readyz", tls=False))

    async def metrics(self) -> Metrics:
        """Return the metrics of the server."""
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(self._metrics) as answer:
            answer.raise_for_status()
            return parse(await answer.text())


def token_for(admin: Path, name: str, *, namespace: str, audience: str = AUDIENCE) -> str:
    """Return a token of a ServiceAccount for the page, or for another audience; "": for the API server."""
    chosen = (f"--audience={audience}",) if audience else ()
    return kubectl("create", "token", name, f"--namespace={namespace}", *chosen, kubeconfig=str(admin)).strip()
