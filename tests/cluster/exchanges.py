"""Plays the recorded requests to a real API server again, and writes down what it answers now.

    python -m tests.cluster.exchanges

The file is tests/localplane/schemas/recorded.json, one exchange a line. To record something new, add a line with the
request alone (name, method, path, query, content_type, body) where its turn is, and run this: nothing else is needed.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import sys
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.cluster.schemas import OPTIONS, Server
from tests.cluster.waiting import until

FILE: Final = binaries.HERE.parent / "localplane" / "schemas" / "recorded.json"

WITHOUT: Final = "--disable-admission-plugins=ServiceAccount,PodSecurity,Priority"
"""Plugins that want objects which only controllers make."""

Exchange = dict[str, Any]


def answered(server: Server, exchange: Exchange) -> Exchange:
    """Return an exchange with the answer of now."""
    query = f"?{urlencode(exchange['query'])}" if exchange["query"] else ""
    headers = dict(server.headers)
    if exchange["content_type"] is not None:
        headers["Content-Type"] = exchange["content_type"]
    body = None if exchange["body"] is None else exchange["body"].encode()
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, timeout=20, context=server.trust)
    try:
        connection.request(exchange["method"], exchange["path"] + query, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    warnings = [value for name, value in answer.getheaders() if name.lower() == "warning"]
    return exchange | {"status": answer.status, "warnings": warnings, "answer": _value(text)}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _serves(server: Server, definition: Exchange) -> bool:
    spec = json.loads(definition["body"])["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    question = {"method": "GET", "path": path, "query": {}, "content_type": None, "body": None}
    return bool(answered(server, question)["status"] == http.client.OK)


def main() -> None:
    """Play everything in its order, write the file."""
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    cluster = Cluster(dataclasses.replace(OPTIONS, apiserver_flags=(*OPTIONS.apiserver_flags, WITHOUT)))
    found = []
    try:
        cluster.start_apiserver()
        server = Server(cluster)
        for exchange in recorded:
            found.append(answered(server, exchange))
            if exchange["path"].endswith("/customresourcedefinitions") and "dryRun" not in exchange["query"]:
                until(lambda: _serves(server, exchange), within=20, saying="custom kind served")  # noqa: B023 - asked at once
    finally:
        cluster.stop()
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in found)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    sys.stdout.write(f"{FILE}: {len(found)} exchanges\n")


if __name__ == "__main__":
    main()
