"""The archives of kubectl dra: which packages, which files, and in which folder each is."""

import stat
import zipfile

import pytest

from release import krew, launcher
from release.archives import Entry
from release.plan import KREW_PLATFORMS

LOCKED = """\
# written by pip-compile
a==1 \\
    --hash=sha256:0 \\
    --hash=sha256:1
    # via dra-reserve (pyproject.toml)
grpcio==2 \\
    --hash=sha256:2
    # via
    #   a
    #   b
b==3 \\
    --hash=sha256:3
"""


def wheel(path, **files):
    """Write a wheel with these files, named with `__` for a slash."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return path


def test_packages_of_a_node_are_left_out_of_the_locked_ones():
    found = krew.locked_requirements(LOCKED, without=("GRPCIO",))
    assert found == (
        "a==1 \\\n    --hash=sha256:0 \\\n    --hash=sha256:1\n    # via dra-reserve (pyproject.toml)\n"
        "b==3 \\\n    --hash=sha256:3\n"
    )


def test_the_packages_of_a_node_are_those_of_the_extra():
    text = (krew.ROOT / "pyproject.toml").read_text()
    assert krew.node_packages(text) == ("grpcio", "nvidia-ml-py")


def test_each_locked_package_keeps_its_hashes():
    text = (krew.ROOT / "requirements" / "runtime.txt").read_text()
    found = krew.locked_requirements(text, without=())
    assert found.count("--hash=sha256:") == text.count("--hash=sha256:")


def test_a_wheel_for_all_versions_is_shared_and_others_have_a_folder_each():
    wheels = {"3.11": ("x-py3-none-any.whl", "y-cp311.whl"), "3.12": ("x-py3-none-any.whl", "y-cp312.whl")}
    assert krew.library_folders(wheels) == {
        "x-py3-none-any.whl": "any",
        "y-cp311.whl": "cp311",
        "y-cp312.whl": "cp312",
    }


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("kubernetes/aio/client/__init__.py", True),
        ("kubernetes/aio/client/models/__init__.py", True),
        ("kubernetes/aio/client/models/v1_pod.py", False),
        ("kubernetes/client/api/core_v1_api.py", False),
        ("kubernetes/aio/config/kube_config.py", True),
        ("bazel-project/external/test.py", False),
        ("cel_expr_python/ext/ext_proto.cpython-313-x86_64-linux-gnu.so", False),
        ("cel_expr_python/ext/ext_math.cpython-313-x86_64-linux-gnu.so", True),
    ],
)
def test_files_that_are_never_imported_are_left_out(tmp_path, name, kept):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "content")
    assert [found for found, _ in krew.wheel_entries(path)] == ([name] if kept else [])


def test_packages_below_a_data_folder_are_taken_and_scripts_are_not(tmp_path):
    path = wheel(tmp_path / "a.whl", **{"a-1.data__scripts__a": "x", "a-1.data__platlib__a__b.so": "y"})
    assert [name for name, _ in krew.wheel_entries(path)] == ["a/b.so"]


def test_programs_of_a_wheel_stay_executable(tmp_path):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        program = zipfile.ZipInfo("a/run")
        program.external_attr = (stat.S_IFREG | 0o755) << 16
        archive.writestr(program, "x")
    assert [entry for _, entry in krew.wheel_entries(path)] == [Entry(b"x", 0o755)]


def test_an_archive_has_both_commands_the_licences_and_each_package_in_its_folder(tmp_path):
    first, second = wheel(tmp_path / "a.whl", a__x="1"), wheel(tmp_path / "b.whl", b__y="2")
    found = krew.archive_entries([("any", first), ("cp311", second)])
    assert set(found) == {*launcher.MODULES, "LICENSE", "NOTICE", "lib/any/a/x", "lib/cp311/b/y"}
    assert found["kubectl-dra"].mode == 0o755
    assert found["kubectl-dra"].content.startswith(b"#!/usr/bin/env python3\n")


def test_two_packages_with_different_files_of_one_name_are_an_error(tmp_path):
    first, second = wheel(tmp_path / "a.whl", a__x="1"), wheel(tmp_path / "b.whl", a__x="2")
    with pytest.raises(krew.ConflictError, match=r"lib/any/a/x: b\.whl"):
        krew.archive_entries([("any", first), ("any", second)])


def test_each_platform_of_the_plan_has_tags_of_wheels():
    assert tuple(krew.WHEEL_PLATFORMS) == KREW_PLATFORMS
