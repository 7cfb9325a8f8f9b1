import asyncio

from localplane.controller_manager.manager import ControllerManager
from tests.localplane.components import Plane, running

VIRTUAL_TIME = True


def controllers(plane):
    return running(ControllerManager(plane.client(), clock=plane.clock, random=plane.random))


async def configmap(plane, name, *, owners=(), block=True):
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for owner in owners
    ]
    return await plane.user.create("configmaps", {"metadata": {"name": name, "ownerReferences": references}})


async def names(plane):
    await asyncio.sleep(1)
    return [name for name in await plane.user.names("configmaps") if name != "kube-root-ca.crt"]


async def test_dependents_go_after_their_owner():
    plane = Plane()
    async with controllers(plane):
        owner = await configmap(plane, "owner")
        child = await configmap(plane, "child", owners=[owner])
        await configmap(plane, "grandchild", owners=[child])
        assert await names(plane) == ["child", "grandchild", "owner"]
        await plane.user.delete("configmaps", "owner", propagationPolicy="Background")
        assert await names(plane) == []


async def test_an_owner_deleted_in_the_foreground_goes_last():
    plane = Plane()
    async with controllers(plane):
        owner = await configmap(plane, "owner")
        child = await configmap(plane, "child", owners=[owner])
        await plane.user.patch("configmaps", "child", {"metadata": {"finalizers": ["example.com/hold"]}})
        await plane.user.delete("configmaps", "owner", propagationPolicy="Foreground")
        assert await names(plane) == ["child", "owner"]
        assert (await plane.user.get("configmaps", "child"))["metadata"]["deletionTimestamp"]
        await plane.user.patch("configmaps", "child", {"metadata": {"finalizers": None}})
        assert await names(plane) == []
        del child


async def test_a_dependent_that_does_not_block_may_stay_longer():
    plane = Plane()
    async with controllers(plane):
        owner = await configmap(plane, "owner")
        await configmap(plane, "child", owners=[owner], block=False)
        await plane.user.patch("configmaps", "child", {"metadata": {"finalizers": ["example.com/hold"]}})
        await plane.user.delete("configmaps", "owner", propagationPolicy="Foreground")
        assert await names(plane) == ["child"]


async def test_orphans_stay_and_forget_their_owner():
    plane = Plane()
    async with controllers(plane):
        owner = await configmap(plane, "owner")
        await configmap(plane, "child", owners=[owner])
        await plane.user.delete("configmaps", "owner", propagationPolicy="Orphan")
        assert await names(plane) == ["child"]
        assert "ownerReferences" not in (await plane.user.get("configmaps", "child"))["metadata"]


async def test_an_object_with_another_owner_stays_and_forgets_the_one_that_is_gone():
    plane = Plane()
    async with controllers(plane):
        first, second = await configmap(plane, "first"), await configmap(plane, "second")
        await configmap(plane, "child", owners=[first, second])
        await plane.user.delete("configmaps", "first")
        assert await names(plane) == ["child", "second"]
        [owner] = (await plane.user.get("configmaps", "child"))["metadata"]["ownerReferences"]
        assert owner["name"] == "second"


async def test_an_owner_that_was_never_seen_is_looked_up_before_it_counts_as_gone():
    plane = Plane()
    owner = await configmap(plane, "owner")
    await configmap(plane, "child", owners=[owner])
    await configmap(plane, "lost", owners=[{"metadata": {"name": "owner", "uid": "somebody-else"}}])
    async with controllers(plane):
        assert await names(plane) == ["child", "owner"]


async def test_an_owner_of_an_unknown_kind_is_not_taken_for_gone():
    plane = Plane()
    reference = {"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "x"}
    async with controllers(plane):
        await plane.user.create("configmaps", {"metadata": {"name": "child", "ownerReferences": [reference]}})
        assert await names(plane) == ["child"]
