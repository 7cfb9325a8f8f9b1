"""The definition of the golden exchanges, and a server that has it."""

from copy import deepcopy

from dra.kube.transport import MERGE_PATCH, Request
from localplane.objects import decode, encode
from localplane.server import ApiServer

GROUP = "demo.example.com"
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["gpus"],
            "properties": {"gpus": {"type": "integer", "minimum": 1}},
            "x-kubernetes-validations": [{"rule": "self.gpus <= 8", "message": "at most 8"}],
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
VERSION = {
    "name": "v1alpha1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {"status": {}},
    "selectableFields": [{"jsonPath": ".spec.gpus"}],
    "additionalPrinterColumns": [
        {"name": "GPUs", "type": "integer", "jsonPath": ".spec.gpus"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    ],
}
NAMES = {"plural": "reservations", "kind": "Reservation", "shortNames": ["rsv"], "categories": ["all"]}


def definition(*, names=None, versions=(), **spec):
    names = {**NAMES, **(names or {})}
    body = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": list(versions) or [VERSION], **spec}
    return deepcopy(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{names['plural']}.{body['group']}"},
            "spec": body,
        }
    )


def with_schema(schema, **version):
    """Return the definition with another schema of the spec."""
    root = {"type": "object", "properties": {"spec": schema}}
    return definition(versions=[{**VERSION, "selectableFields": [], "schema": {"openAPIV3Schema": root}, **version}])


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/v1alpha1/namespaces/default/reservations"


class CustomResourceApi:
    """Requests to a server in process."""

    def __init__(self):
        self.server = ApiServer()

    async def ask(self, method, path, body=None, **query):
        content = MERGE_PATCH if method == "PATCH" else "application/json"
        request = Request(
            method=method,
            path=path,
            query=query,
            body=None if body is None else encode(body),
            content_type=content,
            timeout=5,
        )
        answer = await self.server.handle(request)
        try:
            return answer.status, decode(answer.body)
        except ValueError:
            return answer.status, answer.body.decode()

    async def define(self, obj):
        status, answer = await self.ask("POST", DEFINITIONS, obj)
        assert status == 201, answer["message"]
        return answer

    async def create(self, name="a", *, path=OBJECTS, version="v1alpha1", **content):
        body = {"apiVersion": f"{GROUP}/{version}", "kind": "Reservation", "metadata": {"name": name}, **content}
        return await self.ask("POST", path, body)
