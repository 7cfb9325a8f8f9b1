"""The table of `features` is what the documentation shows, and what Kubernetes says of its gates."""

import re
import subprocess

import pytest

from tests.allocator import features
from tests.allocator.features import NONE, OFF, ON
from tests.cluster import binaries
from tests.cluster.versions import minor


def test_the_documentation_shows_the_table():
    assert features.PAGE.read_text(encoding="utf-8") == features.page(), "python -m tests.allocator.features"


@pytest.mark.parametrize("version", features.VERSIONS, ids=lambda version: f"1.{version}")
def test_the_gates_are_those_of_kube_apiserver(version):
    """Its help names alpha and beta gates; of those that are stable it says nothing, as of those it does not know."""
    program = next((each for each in binaries.controlplanes() if minor(each.version) == version), None)
    if program is None or not program.path.is_file():
        pytest.skip(f"there is no control plane 1.{version}: make binaries VERSION=1.{version} builds it, with Go")
    told = subprocess.run([program.path, "apiserver", "--help"], capture_output=True, text=True, check=True).stdout
    gates = set(re.findall(r"(\w+)=true\|false \((?:ALPHA|BETA) - default=(true|false)\)", told))

    place = features.VERSIONS.index(version)
    for feature in features.FEATURES:
        default = feature.defaults[place]
        for gate in feature.gates:
            named = {value for name, value in gates if name == gate}
            assert not named if default == NONE else not named or {ON: "true", OFF: "false"}[default] in named, gate
            assert default != OFF or named, f"{gate}: off by default, and not named"
