"""localplane/schemas/structures.json, where a Go and a built control plane are at hand."""

import json
import shutil

import pytest

from tests.cluster import binaries, schemas


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("go") is None or not binaries.controlplane(schemas.KUBERNETES).path.exists(),
    reason="no Go, or nothing built",
)
def test_the_structure_of_the_built_in_kinds_is_what_the_real_server_says():
    assert json.loads(schemas.generate()) == json.loads(schemas.OUTPUT.read_text(encoding="utf-8"))
