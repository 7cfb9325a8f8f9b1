"""What people would apply, and what became of it."""

from tests.dra.engine.diagnosis.cluster_states import DRIVER


def manifest(kind, name, spec=None, *, version="v1", **metadata):
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml"} | metadata,
        "spec": spec or {},
    }


def asking(name, count=1):
    exactly = {"deviceClassName": DRIVER, "count": count}
    return manifest("ResourceClaim", name, {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})


def template(name, count=1):
    return manifest("ResourceClaimTemplate", name, {"spec": asking("x", count)["spec"]})


def using(*claims, template=None, cpu=1, **more):
    entries = [{"name": f"c{number}", "resourceClaimName": name} for number, name in enumerate(claims)]
    entries += [{"name": "own", "resourceClaimTemplateName": template}] if template else []
    return {"containers": [{"name": "main", "resources": {"limits": {"cpu": cpu}}}], "resourceClaims": entries} | more


def placed(found):
    return {name for name, each in found.items() if each["placed"]}
