import json

import pytest
import yaml

from localplane.nodes import cdi


def spec(*devices, kind="gpu.example.com/claim", env=None):
    edits = {"containerEdits": {"env": env}} if env else {}
    made = [{"name": name, "containerEdits": {"env": list(values)}} for name, *values in devices]
    return {"cdiVersion": "0.6.0", "kind": kind, "devices": made, **edits}


@pytest.fixture
def put(tmp_path):
    def put(name, content):
        text = (
            content if isinstance(content, str) else (yaml.safe_dump if name.endswith("yaml") else json.dumps)(content)
        )
        (tmp_path / name).write_text(text)

    return put


def test_a_device_comes_with_its_own_edits_and_those_of_its_file(put, tmp_path):
    put("a.json", spec(("1-0", "A=1", "B=2"), ("1-1", "A=3"), env=["C=4=5"]))
    put("b.yaml", spec(("x", "D=6"), kind="nic.example.com/claim"))
    names = ["gpu.example.com/claim=1-0", "nic.example.com/claim=x"]
    assert cdi.device_environment(tmp_path, names) == {"A": "1", "B": "2", "C": "4=5", "D": "6"}
    assert cdi.device_environment(tmp_path, ["gpu.example.com/claim=1-1"]) == {"A": "3", "C": "4=5"}


def test_nothing_is_asked_where_nothing_is_wanted(tmp_path):
    assert cdi.device_environment(tmp_path, []) == {}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="no-json"),
        pytest.param("[]", id="no-object"),
        pytest.param({"kind": "gpu.example.com/claim"}, id="no-devices"),
        pytest.param({"kind": "gpu.example.com/claim", "devices": [{"name": 1}]}, id="no-name"),
        pytest.param(spec(("1-0", "=1")), id="env-without-name"),
        pytest.param(spec(("1-0", 7)), id="env-that-is-no-text"),
    ],
)
def test_a_file_that_cannot_be_read_describes_nothing_and_hides_nothing(put, tmp_path, content):
    put("bad.json", content)
    put("good.json", spec(("2-0", "A=1")))
    assert cdi.device_environment(tmp_path, ["gpu.example.com/claim=2-0"]) == {"A": "1"}
    with pytest.raises(cdi.CdiInjectionError, match=r"^unresolvable CDI devices gpu\.example\.com/claim=1-0$"):
        cdi.device_environment(tmp_path, ["gpu.example.com/claim=1-0"])


@pytest.mark.parametrize("name", ["notes.txt", ".a.json"])
def test_other_files_are_none(put, tmp_path, name):
    put(name, json.dumps(spec(("1-0", "A=1"))))
    with pytest.raises(cdi.CdiInjectionError):
        cdi.device_environment(tmp_path, ["gpu.example.com/claim=1-0"])


def test_what_two_files_describe_is_nobodys(put, tmp_path):
    put("a.json", spec(("1-0", "A=1")))
    put("b.json", spec(("1-0", "A=2")))
    with pytest.raises(cdi.CdiInjectionError, match="unresolvable"):
        cdi.device_environment(tmp_path, ["gpu.example.com/claim=1-0"])


def test_without_a_folder_nothing_is_found(tmp_path):
    for folder in (None, tmp_path / "none"):
        with pytest.raises(cdi.CdiInjectionError, match="unresolvable CDI devices a/b=c, a/b=d"):
            cdi.device_environment(folder, ["a/b=c", "a/b=d"])
