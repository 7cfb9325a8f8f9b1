"""What a component of Kubernetes says of the requests that it has sent to the API server."""

from __future__ import annotations

import ssl
from typing import Final

import aiohttp

from tests.cluster.ports import LOOPBACK
from tests.scenarios import metrics

REQUESTS: Final = "rest_client_requests_total"


async def requests_sent(port: int) -> float:
    """Return the number of requests that the component at this port has sent; its certificate is of its own making."""
    url = f"https://{LOOPBACK}:{port}/metrics"
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(trust_env=False) as session, session.get(url, ssl=unchecked) as answer:
        answer.raise_for_status()
        return metrics.total(metrics.parse(await answer.text()), REQUESTS)
