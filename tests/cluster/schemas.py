"""Writes localplane/schemas/structures.json: what the built-in kinds look like, from a real API server and from Go.

    python -m tests.cluster.schemas         write the file
    python -m tests.cluster.schemas FILE    write it somewhere else

Two sources. OpenAPI knows which lists are sets and maps, merge keys, enums, defaults. The Go types know what a field
is called in an error text and whether an empty one is written. Descriptions stay behind: the file has no sentence of
upstream's.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Final

import yaml

from dra.model import releases
from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.cluster.options import Options
from tests.cluster.versions import Kind

OUTPUT: Final = binaries.HERE.parents[1] / "localplane" / "schemas" / "structures.json"

KUBERNETES: Final = releases.NEWEST.value
"""What the local plane behaves as by default; as an older version it has the same types, less what
`dra.model.releases` says."""

POD_GROUPS: Final = Kind.POD_GROUP.api_version(KUBERNETES)

GROUP_VERSIONS: Final = (
    "api/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v1",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/resource.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    f"apis/{POD_GROUPS}",
    "apis/storage.k8s.io/v1",
)

OPTIONS: Final = Options(
    kubernetes=KUBERNETES,
    feature_gates={"GenericWorkload": True},
    apiserver_flags=(f"--runtime-config={POD_GROUPS}=true",),
)


class Server:
    """Asks an API server of ours."""

    def __init__(self, cluster: Cluster) -> None:
        config = yaml.safe_load(cluster.admin_kubeconfig.read_text(encoding="utf-8"))
        self.headers: Final = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        self.url: Final = cluster.server
        self.trust: Final = ssl.create_default_context()
        self.trust.check_hostname = False
        self.trust.verify_mode = ssl.CERT_NONE

    def get(self, path: str) -> Any:
        """Return the JSON at a path."""
        request = urllib.request.Request(f"{self.url}/{path}", headers=self.headers)  # noqa: S310 - https
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.trust)
        )
        with opener.open(request) as answer:
            return json.load(answer)


def go_structures() -> dict[str, dict[str, list[str]]]:
    """Return the Go type and the encoding of each field of each struct of the API."""
    program = binaries.controlplane(OPTIONS.kubernetes)
    command = ["go", "run", f"-modfile={program.modules}", "./structures"]
    environment = binaries.go_environment() | {"CGO_ENABLED": "0"}
    output = subprocess.run(command, cwd=program.folder, env=environment, check=True, capture_output=True).stdout
    structures: dict[str, dict[str, list[str]]] = json.loads(output)
    return structures


def openapi_definitions(server: Server) -> dict[str, dict[str, Any]]:
    """Return the components of all documents."""
    found: dict[str, dict[str, Any]] = {}
    for path in GROUP_VERSIONS:
        for name, definition in server.get(f"openapi/v3/{path}")["components"]["schemas"].items():
            found.setdefault(name, definition)
    return found


def without_descriptions(schema: Any) -> Any:
    """Return a schema without its texts; a *field* named description stays."""
    if isinstance(schema, list):
        return [without_descriptions(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: without_descriptions(each) for name, each in value.items()}
        elif key in ("default", "enum") or key.startswith("x-kubernetes-"):
            kept[key] = value
        elif key != "description":
            kept[key] = without_descriptions(value)
    return kept


def combined(definitions: dict[str, dict[str, Any]], go: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, Any]]:
    """Return the definitions with ``x-go`` at each field: its type, when it is left out, what it is embedded by."""
    result = {}
    for name, definition in sorted(definitions.items()):
        schema = without_descriptions(definition)
        if name in go and schema.get("type") == "object":
            schema.setdefault("properties", {})  # a struct without fields, not an object of any form
        for field, words in go.get(name, {}).items():
            if field in schema.get("properties", {}):
                schema["properties"][field]["x-go"] = " ".join(words).strip()
        result[name] = schema
    return result


def generate() -> str:
    """Start an API server, return the text of the file."""
    go = go_structures()
    with_server = Cluster(OPTIONS)
    try:
        with_server.start_apiserver()
        definitions = openapi_definitions(Server(with_server))
    finally:
        with_server.stop()
    content = {"kubernetes": with_server.kubernetes, "definitions": combined(definitions, go)}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def main(*arguments: str) -> None:
    """Write the file."""
    output = Path(arguments[0]) if arguments else OUTPUT
    output.write_text(generate(), encoding="utf-8")
    sys.stdout.write(f"{output}: {output.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
