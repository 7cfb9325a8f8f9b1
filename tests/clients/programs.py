"""What programs with client libraries do, each in a process of its own: the libraries take 40 MiB.

``python -m tests.clients.programs NAME KUBECONFIG``; a program that is not content with the server raises.
"""

import asyncio
import contextlib
import inspect
import os
import sys

import kopf
import pytest
from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, UnprocessibleEntityError

from tests.clients.manifests import definition, load

GROUP = "clients.example.com/v1"


def the_dynamic_client(kubeconfig):
    """It blocks: discovery, writes of all kinds, a watch, and a kind of a definition."""
    with config.new_client_from_config(str(kubeconfig)) as connection:
        api = dynamic.DynamicClient(connection)
        maps = api.resources.get(api_version="v1", kind="ConfigMap")
        made = maps.create(body={"metadata": {"name": "a"}, "data": {"v": "1"}}, namespace="default")
        assert made.data.v == "1"
        with pytest.raises(ConflictError):
            maps.create(body={"metadata": {"name": "a"}}, namespace="default")
        patched = maps.patch(
            body={"data": {"w": "2"}}, name="a", namespace="default", content_type="application/merge-patch+json"
        )
        assert patched.data.to_dict() == {"v": "1", "w": "2"}
        applied = maps.server_side_apply(
            body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"x": "y"}},
            namespace="default",
            field_manager="tests",
        )
        assert applied.metadata.managedFields[0].manager == "tests"
        assert [each.metadata.name for each in maps.get(namespace="default").items] == ["a", "b"]
        events = maps.watch(namespace="default", timeout=1)
        assert [(each["type"], each["object"].metadata.name) for each in events] == [("ADDED", "a"), ("ADDED", "b")]
        definitions = api.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
        definitions.create(body=load(definition("dynamo")))
        api.resources.invalidate_cache()
        dynamos = api.resources.get(api_version=GROUP, kind="Dynamo")
        with pytest.raises(UnprocessibleEntityError, match=r"spec\.size in body should be less than or equal to 9"):
            dynamos.create(body=_custom("Dynamo", size=10), namespace="default")
        dynamos.create(body=_custom("Dynamo", size=1), namespace="default")
        dynamos.status.patch(
            body={"status": {"phase": "Ready"}},
            name="a",
            namespace="default",
            content_type="application/merge-patch+json",
        )
        assert dynamos.get(name="a", namespace="default").status.phase == "Ready"
        dynamos.delete(name="a", namespace="default")
        with pytest.raises(NotFoundError):
            dynamos.get(name="a", namespace="default")


def _custom(kind, **spec):
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def the_typed_client(kubeconfig):
    """A Deployment made of its models."""
    with config.new_client_from_config(str(kubeconfig)) as connection:
        core, apps = client.CoreV1Api(connection), client.AppsV1Api(connection)
        container = client.V1Container(name="main", image="example.com/main:1")
        template = client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
        )
        spec = client.V1DeploymentSpec(
            replicas=2, selector=client.V1LabelSelector(match_labels={"app": "web"}), template=template
        )
        web = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
        assert apps.create_namespaced_deployment("default", web).spec.replicas == 2
        assert [each.metadata.name for each in apps.list_namespaced_deployment("default").items] == ["web"]
        assert "default" in [each.metadata.name for each in core.list_namespace().items]
        apps.delete_namespaced_deployment("web", "default")
        assert apps.list_namespaced_deployment("default").items == []


async def an_operator_of_kopf(kubeconfig):
    """Its handlers see an object come and change, and its finalizer lets it go."""
    await asyncio.to_thread(_define, kubeconfig, "operated")
    seen, registry = asyncio.Queue(), kopf.OperatorRegistry()

    @kopf.on.create(GROUP, "operateds", registry=registry)
    async def created(spec, patch, **_):
        patch.status["phase"] = f"made {spec['size']}"
        await seen.put("created")

    @kopf.on.field(GROUP, "operateds", field="spec.size", old=kopf.PRESENT, registry=registry)
    async def changed(old, new, **_):
        await seen.put(f"changed {old} {new}")

    @kopf.on.delete(GROUP, "operateds", registry=registry)
    async def deleted(**_):
        await seen.put("deleted")

    @kopf.on.login(registry=registry)
    def login(**more):
        return kopf.login_with_kubeconfig(**more)

    os.environ["KUBECONFIG"] = str(kubeconfig)
    ready, stop = asyncio.Event(), asyncio.Event()
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=settings,
            namespaces=["default"],
            standalone=True,
            ready_flag=ready,
            stop_flag=stop,
        )
    )
    try:
        async with asyncio.timeout(30):
            await ready.wait()
            await asyncio.to_thread(_dynamic, kubeconfig, "create", body=_custom("Operated", size=1))
            assert await seen.get() == "created"
            await _until(kubeconfig, lambda found: found.status and found.status.phase == "made 1")
            await asyncio.to_thread(_dynamic, kubeconfig, "patch", name="a", body={"spec": {"size": 2}}, **MERGE)
            assert await seen.get() == "changed 1 2"
            await asyncio.to_thread(_dynamic, kubeconfig, "delete", name="a")
            assert await seen.get() == "deleted"
            with pytest.raises(NotFoundError):
                await _until(kubeconfig, lambda _: False)
    finally:
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(operator, 20)


MERGE = {"content_type": "application/merge-patch+json"}


def _define(kubeconfig, name):
    with config.new_client_from_config(str(kubeconfig)) as connection:
        api = dynamic.DynamicClient(connection)
        definitions = api.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
        definitions.create(body=load(definition(name)))


def _dynamic(kubeconfig, verb, **arguments):
    with config.new_client_from_config(str(kubeconfig)) as connection:
        resource = dynamic.DynamicClient(connection).resources.get(api_version=GROUP, kind="Operated")
        return getattr(resource, verb)(namespace="default", **arguments)


async def _until(kubeconfig, holds):
    while not holds(await asyncio.to_thread(_dynamic, kubeconfig, "get", name="a")):  # noqa: ASYNC110 - what is waited for is on a server
        await asyncio.sleep(0.05)


async def kr8s(kubeconfig):
    """Objects, labels, a watch, a kind of a definition and its scale."""
    import kr8s.asyncio  # noqa: PLC0415 - may be missing
    from kr8s.asyncio.objects import ConfigMap, Deployment, new_class  # noqa: PLC0415 - may be missing

    api = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    one = await ConfigMap({"metadata": {"name": "one", "namespace": "default"}, "data": {"v": "1"}}, api=api)
    await one.create()
    await one.patch({"data": {"w": "2"}})
    await one.label(app="web")
    assert [each.name async for each in api.get("configmaps", namespace="default", label_selector="app=web")] == ["one"]
    watched = api.watch("configmaps", namespace="default")
    assert [(kind, each.data.to_dict()) async for kind, each in _first(watched)] == [("ADDED", {"v": "1", "w": "2"})]
    await one.delete()
    await one.wait("delete", timeout=10)
    assert not await one.exists()

    await asyncio.to_thread(_define, kubeconfig, "kreated")
    kreated = new_class(kind="Kreated", version=GROUP, namespaced=True, plural="kreateds", scalable=True)
    made = await kreated(_custom("Kreated", size=1) | {"metadata": {"name": "a", "namespace": "default"}}, api=api)
    await made.create()
    await made.scale(3)
    await made.refresh()
    assert made.spec.replicas == 3
    assert Deployment.kind == "Deployment"


async def _first(events):
    async for event in events:
        yield event
        return


PROGRAMS = {program.__name__: program for program in (the_dynamic_client, the_typed_client, an_operator_of_kopf, kr8s)}

if __name__ == "__main__":
    program, kubeconfig = PROGRAMS[sys.argv[1]], sys.argv[2]
    if inspect.iscoroutinefunction(program):
        asyncio.run(program(kubeconfig))
    else:
        program(kubeconfig)
