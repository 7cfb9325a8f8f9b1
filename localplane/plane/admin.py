"""Serves the administration of a plane below ``/dra``: status, faults, crashes, snapshots.

::

    GET    /dra                            running components, and counts
    GET    /dra/faults                     the rules in force, and how often each fault has happened
    PUT    /dra/faults     {"rules": []}   replace all rules; POST adds rules
    DELETE /dra/faults                     remove all rules
    POST   /dra/components/NAME/crash      end a component wherever it is; the supervisor restarts the component
    GET    /dra/snapshot                   save the state
    PUT    /dra/snapshot                   replace the state by a saved one

Every client with the token of the plane may use these paths.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from dra.kube.transport import JSON, Request, Response
from localplane import snapshots, status_errors
from localplane.fault_injection import FaultInjector, FaultRule
from localplane.objects import encode
from localplane.plane.options import PlaneOptions
from localplane.plane.supervisor import Supervisor
from localplane.server import ApiServer

ADMIN_PATH: Final = "dra"

SNAPSHOT_MEDIA_TYPE: Final = "application/x-ndjson"


class FaultRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request body of ``/dra/faults``."""

    rules: list[FaultRule]


class AdminHandler:
    """Handles the requests below ``/dra``."""

    def __init__(
        self,
        *,
        options: PlaneOptions,
        server: ApiServer,
        faults: FaultInjector,
        supervisor: Supervisor,
        sibling_processes: Mapping[str, int],
    ) -> None:
        self._options = options
        self._server = server
        self._faults = faults
        self._supervisor = supervisor
        self._sibling_processes = sibling_processes

    def handle(self, request: Request) -> Response:
        """Answer a request below ``/dra``; raises `StatusError`."""
        match [request.method, *request.path.strip("/").split("/")]:
            case ["GET", "dra"]:
                return _json_response(self._status())
            case ["GET", "dra", "faults"]:
                return _json_response(self._rules())
            case ["PUT" | "POST" | "DELETE" as method, "dra", "faults"]:
                return self._change_rules(method, request)
            case ["POST", "dra", "components", name, "crash"]:
                if not self._supervisor.crash(name):
                    running = ", ".join(self._supervisor.running)
                    raise status_errors.not_found("components", "dra", f"{name} (there are: {running})")
                return _json_response({"crashed": name})
            case ["GET", "dra", "snapshot"]:
                raw = snapshots.dump(self._server.store, api=self._options.api.value)
                return Response(200, {"content-type": SNAPSHOT_MEDIA_TYPE}, raw)
            case ["PUT", "dra", "snapshot"]:
                return self._restore(request)
            case _:
                raise status_errors.not_found("pages", "dra", f"{request.method} {request.path}")

    def _status(self) -> dict[str, Any]:
        return {
            "api": self._options.api.value,
            "nodes": self._options.nodes,
            "devices": self._options.devices,
            "components": {
                name: {"crashes": self._supervisor.crashes[name]} for name in sorted(self._supervisor.running)
            },
            "beside": dict(self._sibling_processes),
            "revision": self._server.store.revision,
            "objects": sum(len(self._server.store.scan(name)) for name in self._server.store.collections()),
        }

    def _rules(self) -> dict[str, Any]:
        return {"rules": self._faults.rules, "counts": dict(self._faults.counts)}

    def _change_rules(self, method: str, request: Request) -> Response:
        rules = []
        if method != "DELETE":
            rules = _decode_rules(lambda: msgspec.json.decode(request.body or b"", type=FaultRules).rules)
        if method == "POST":
            self._faults.add(*rules)
        else:
            self._faults.set(rules)
        return _json_response(self._rules())

    def _restore(self, request: Request) -> Response:
        try:
            header = snapshots.load(request.body or b"", self._server.store)
        except snapshots.MalformedSnapshotError as error:
            raise status_errors.bad_request(f"the snapshot cannot be restored: {error}") from error
        return _json_response({"restored": header.objects, "revision": self._server.store.revision})


def _decode_rules(decode: Callable[[], list[FaultRule]]) -> list[FaultRule]:
    try:
        return decode()
    except msgspec.DecodeError as error:
        raise status_errors.bad_request(f"the rules cannot be read: {error}") from error


def _json_response(value: object) -> Response:
    return Response(200, {"content-type": JSON}, encode(value))
