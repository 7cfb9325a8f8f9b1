"""The bills of materials of a release: the image's has all of the package's, the image itself and its base."""

import json

from release import sbom
from release.bills import image_bill
from release.project import read_project

PROJECT = read_project()
DIGEST, BASE_DIGEST = "sha256:" + "a" * 64, "sha256:" + "b" * 64
PACKAGE = json.loads(sbom.text())
IMAGE = image_bill(PACKAGE, project=PROJECT, digest=DIGEST, base=f"python:3.13@{BASE_DIGEST}")


def test_the_image_is_identified_by_its_digest():
    image = IMAGE["metadata"]["component"]
    assert image["purl"] == f"pkg:oci/dra-reserve@sha256%3A{'a' * 64}?repository_url={PROJECT.image}"
    assert image["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]


def test_the_image_contains_the_package_its_base_and_all_that_the_package_needs():
    purls = [each["purl"] for each in IMAGE["components"]]
    ours = PACKAGE["metadata"]["component"]["purl"]
    assert purls == [ours, f"pkg:oci/python@sha256%3A{'b' * 64}", *(each["purl"] for each in PACKAGE["components"])]
    assert {"preact", "htm", "aiohttp"} <= {each["name"] for each in IMAGE["components"]}


def test_every_dependency_is_a_component():
    known = {each["bom-ref"] for each in (*IMAGE["components"], IMAGE["metadata"]["component"])}
    refs = {each["ref"] for each in IMAGE["dependencies"]}
    assert refs == known
    assert {other for each in IMAGE["dependencies"] for other in each["dependsOn"]} <= known


def test_both_bills_have_serial_numbers_of_their_own():
    assert IMAGE["serialNumber"].startswith("urn:uuid:")
    assert IMAGE["serialNumber"] != PACKAGE["serialNumber"]
