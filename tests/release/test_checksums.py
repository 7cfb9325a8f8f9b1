"""The checksums of a release are those that sha256sum computes."""

import subprocess

import pytest

from release.checksums import checksums


def test_sha256sum_accepts_the_file(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    (tmp_path / "SHA256SUMS").write_text(checksums(tmp_path, ("b", "a")))
    done = subprocess.run(
        ["sha256sum", "--strict", "--check", "SHA256SUMS"],  # noqa: S607
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "a: OK\nb: OK\n"


def test_a_file_that_was_not_built_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        checksums(tmp_path, ("a",))
