"""What pods on the local plane cannot do yet and everybody here needs; does nothing where they can.

To be deleted with the first version of ``dra.local.kinds.pods``.
"""

import msgspec

from dra.kube.transport import MERGE_PATCH, Request, Response
from dra.local.server import ApiServer, Watch


def know_phases(server: ApiServer) -> None:
    """Let pods be selected by what the controller and the kubelets ask for."""
    kind = server.catalog.find("", "v1", "pods")
    assert kind is not None
    if "status.phase" in kind.strategy.fields({}):
        return

    def fields(obj):
        spec, status = obj.get("spec", {}), obj.get("status", {})
        return {"spec.nodeName": spec.get("nodeName", ""), "status.phase": status.get("phase", "Pending")}

    kind.strategy.fields = fields


async def bound(server: ApiServer, request: Request) -> Response | Watch | None:
    """Answer the posting of a binding; None if it is something else."""
    if not request.path.endswith("/binding"):
        return None
    wanted = msgspec.json.decode(request.body or b"{}")
    body = {"metadata": {"uid": wanted["metadata"]["uid"]}, "spec": {"nodeName": wanted["target"]["name"]}}
    path = request.path.removesuffix("/binding")
    raw = msgspec.json.encode(body)
    patch = Request(method="PATCH", path=path, body=raw, content_type=MERGE_PATCH, timeout=request.timeout)
    return await server.handle(patch)
