"""The image goes to a registry as it was built: all platforms, with the digest that the chart names."""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import urllib.request

import pytest

from release.chart import image_digest
from release.plan import IMAGE_PLATFORMS, steps
from release.project import Project
from tests.cluster.oci_registry import registry

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("skopeo") is None, reason="needs skopeo, which the runners of releases have"),
]

IMAGE = "application/vnd.oci.image"


def oci_archive(path):
    """Write an image of one empty layer for each platform, in the form that buildx writes."""
    blobs = {}

    def blob(content, kind, **more):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"{IMAGE}.{kind}", "digest": f"sha256:{digest}", "size": len(content), **more}

    def text(content):
        return json.dumps(content).encode()

    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    layer = blob(empty.getvalue(), "layer.v1.tar")
    manifests = []
    for each in IMAGE_PLATFORMS:
        system, machine = each.split("/")
        rootfs = {"type": "layers", "diff_ids": [layer["digest"]]}
        config = blob(text({"os": system, "architecture": machine, "rootfs": rootfs}), "config.v1+json")
        manifest = {"schemaVersion": 2, "mediaType": f"{IMAGE}.manifest.v1+json", "config": config, "layers": [layer]}
        platform = {"os": system, "architecture": machine}
        manifests.append(blob(text(manifest), "manifest.v1+json", platform=platform))
    index = {"schemaVersion": 2, "mediaType": f"{IMAGE}.index.v1+json"}
    whole = blob(text({**index, "manifests": manifests}), "index.v1+json")
    files = {"oci-layout": text({"imageLayoutVersion": "1.0.0"}), "index.json": text({**index, "manifests": [whole]})}
    with tarfile.open(path, "w") as archive:
        for name, content in {**files, **blobs}.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))


def test_the_registry_has_all_platforms_under_the_digest_of_the_archive(tmp_path):
    oci_archive(tmp_path / "dra-reserve-1.2.3-image.tar")
    with registry(tmp_path) as address:
        project = Project(
            name="dra-reserve", version="1.2.3", source="https://a/b", image=f"{address}/ours/dra-reserve", charts="r/c"
        )
        plan = steps(project, base="b@sha256:0", commit="c", commit_time="1", into=str(tmp_path))
        (upload,) = (each for each in plan if each.name == "publish-image")
        (command,) = upload.commands
        subprocess.run([*command, "--dest-tls-verify=false"], check=True, timeout=60)
        request = urllib.request.Request(
            f"http://{address}/v2/ours/dra-reserve/manifests/1.2.3", headers={"Accept": f"{IMAGE}.index.v1+json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own server
            digest, index = answer.headers["Docker-Content-Digest"], json.load(answer)
    assert digest == image_digest(tmp_path / "dra-reserve-1.2.3-image.tar")
    assert [f"{each['platform']['os']}/{each['platform']['architecture']}" for each in index["manifests"]] == [
        *IMAGE_PLATFORMS
    ]
