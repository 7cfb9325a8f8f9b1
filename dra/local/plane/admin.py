"""What only the owner of a plane may do, below ``/dra``: look at it, break it, save it, restore it.

::

    GET    /dra                            what runs
    GET    /dra/faults                     the rules in force, and how often each fault has happened
    PUT    /dra/faults     {"rules": []}   these rules and no others; POST adds them
    DELETE /dra/faults                     no rules
    POST   /dra/components/NAME/crash      end a component where it is; it is started again
    GET    /dra/snapshot                   the state
    PUT    /dra/snapshot                   put a saved state in the place of the present one

Anybody with the token of the plane is its owner.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from dra.kube.transport import JSON, Request, Response
from dra.local import refusals, snapshots
from dra.local.faults import Faults, Rule
from dra.local.objects import encode
from dra.local.plane.options import Options
from dra.local.plane.supervision import Supervisor
from dra.local.server import ApiServer

PATH: Final = "dra"

SNAPSHOT: Final = "application/x-ndjson"


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is put to ``/dra/faults``."""

    rules: list[Rule]


class Admin:
    """Answers the requests below ``/dra``."""

    def __init__(
        self,
        *,
        options: Options,
        server: ApiServer,
        faults: Faults,
        supervisor: Supervisor,
        beside: Mapping[str, int],
    ) -> None:
        self._options = options
        self._server = server
        self._faults = faults
        self._supervisor = supervisor
        self._beside = beside

    def answer(self, request: Request) -> Response:
        """Answer a request; raises `Refusal`."""
        match [request.method, *request.path.strip("/").split("/")]:
            case ["GET", "dra"]:
                return _json(self._status())
            case ["GET", "dra", "faults"]:
                return _json(self._rules())
            case ["PUT" | "POST" | "DELETE" as method, "dra", "faults"]:
                return self._change_rules(method, request)
            case ["POST", "dra", "components", name, "crash"]:
                if not self._supervisor.crash(name):
                    running = ", ".join(self._supervisor.running)
                    raise refusals.not_found("components", "dra", f"{name} (there are: {running})")
                return _json({"crashed": name})
            case ["GET", "dra", "snapshot"]:
                raw = snapshots.dump(self._server.store, api=self._options.api.value)
                return Response(200, {"content-type": SNAPSHOT}, raw)
            case ["PUT", "dra", "snapshot"]:
                return self._restore(request)
            case _:
                raise refusals.not_found("pages", "dra", f"{request.method} {request.path}")

    def _status(self) -> dict[str, Any]:
        return {
            "api": self._options.api.value,
            "nodes": self._options.nodes,
            "devices": self._options.devices,
            "components": {
                name: {"crashes": self._supervisor.crashes[name]} for name in sorted(self._supervisor.running)
            },
            "beside": dict(self._beside),
            "revision": self._server.store.revision,
            "objects": sum(len(self._server.store.snapshot(name)) for name in self._server.store.collections()),
        }

    def _rules(self) -> dict[str, Any]:
        return {"rules": self._faults.rules, "counts": dict(self._faults.counts)}

    def _change_rules(self, method: str, request: Request) -> Response:
        rules = []
        if method != "DELETE":
            rules = _decoded(lambda: msgspec.json.decode(request.body or b"", type=Rules).rules)
        if method == "POST":
            self._faults.add(*rules)
        else:
            self._faults.set(rules)
        return _json(self._rules())

    def _restore(self, request: Request) -> Response:
        try:
            header = snapshots.load(request.body or b"", self._server.store)
        except snapshots.MalformedSnapshotError as error:
            raise refusals.bad_request(f"the snapshot cannot be restored: {error}") from error
        return _json({"restored": header.objects, "revision": self._server.store.revision})


def _decoded(decode: Callable[[], list[Rule]]) -> list[Rule]:
    try:
        return decode()
    except msgspec.DecodeError as error:
        raise refusals.bad_request(f"the rules cannot be read: {error}") from error


def _json(value: object) -> Response:
    return Response(200, {"content-type": JSON}, encode(value))
