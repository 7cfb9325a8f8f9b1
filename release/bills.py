"""Writes the bills of materials of a release (CycloneDX 1.6): of the package, and of the image.

The command is ``python -m release.bills --into dist --base IMAGE@sha256:…``. Both have what deploy/sbom.cdx.json
has: the locked packages, and the scripts of the page. The bill of the image has in addition the digest of the image and
the base; the packages of the base are in the attestation that buildx attaches to the image.
"""

import argparse
import json
import sys
import uuid
from pathlib import Path
from typing import Any

from release import sbom
from release.chart import NoImageError, image_digest
from release.plan import Artefacts
from release.project import Project, read_project

Json = dict[str, Any]


def image_bill(package_bill: Json, *, project: Project, digest: str, base: str) -> Json:
    """Return the bill of the image that was built from the package and a base such as ``python:3.13@sha256:…``."""
    ours = package_bill["metadata"]["component"]
    image = oci_component(project.image, digest=digest, version=project.version)
    bottom = oci_component(base.partition("@")[0].partition(":")[0], digest=base.partition("@")[2])
    content = {
        **{name: value for name, value in package_bill.items() if name != "serialNumber"},
        "metadata": {"component": image},
        "components": [ours, bottom, *package_bill["components"]],
        "dependencies": [
            {"ref": image["bom-ref"], "dependsOn": sorted((ours["bom-ref"], bottom["bom-ref"]))},
            {"ref": bottom["bom-ref"], "dependsOn": []},
            *package_bill["dependencies"],
        ],
    }
    name = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": f"urn:uuid:{name}"}


def oci_component(repository: str, *, digest: str, version: str = "") -> Json:
    """Return the component of an image, identified by its digest."""
    name = repository.rpartition("/")[2]
    where = f"?repository_url={repository}" if "/" in repository else ""
    purl = f"pkg:oci/{name}@{digest.replace(':', '%3A')}{where}"
    algorithm, _, content = digest.partition(":")
    return {
        "type": "container",
        "bom-ref": purl,
        "name": repository,
        "version": version or digest,
        "purl": purl,
        "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": content}],
    }


def main() -> int:
    """Write both bills and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, required=True, help="folder of the release")
    parser.add_argument("--base", required=True, help="base image with its digest")
    given = parser.parse_args()
    project = read_project()
    made = Artefacts(version=project.version)
    try:
        package = sbom.text()
        digest = image_digest(given.into / made.image)
    except (NoImageError, sbom.StaleEnvironmentError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    image = image_bill(json.loads(package), project=project, digest=digest, base=given.base)
    for name, text in ((made.package_sbom, package), (made.image_sbom, json.dumps(image, indent=2) + "\n")):
        (given.into / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{given.into / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
