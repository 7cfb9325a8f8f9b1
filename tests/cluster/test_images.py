"""The images of a real node: which busybox will do, and an archive that says of itself what is in it."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
from pathlib import Path

import pytest

from tests.cluster import images


def elf(*headers: int) -> bytes:
    """Return as much of a 64-bit ELF file as tells its program headers, given by their types."""
    start, size = 64, 56
    head = b"\x7fELF\x02".ljust(32, b"\0") + struct.pack("<Q14xHH", start, size, len(headers))
    return head.ljust(start, b"\0") + b"".join(struct.pack("<I", header).ljust(size, b"\0") for header in headers)


@pytest.mark.parametrize(
    ("content", "static"),
    [
        pytest.param(elf(1, 1, 7), True, id="loaded-as-it-is"),
        pytest.param(elf(6, 3, 1), False, id="asks-for-a-loader"),
        pytest.param(elf(), True, id="no-headers"),
        pytest.param(b"#!/bin/sh\n".ljust(80), False, id="a-script"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_a_program_is_static_if_it_asks_for_no_loader(tmp_path: Path, content: bytes, static: bool) -> None:  # noqa: FBT001
    program = tmp_path / "busybox"
    program.write_bytes(content)
    assert images.is_static(program) is static


def test_the_archive_has_the_shell_and_its_applets_under_both_names(tmp_path: Path) -> None:
    (busybox := tmp_path / "busybox").write_bytes(b"a program")
    images.write_archive(tmp_path / "images.tar", busybox=busybox)

    with tarfile.open(tmp_path / "images.tar") as archive:
        files = {each.name: archive.extractfile(each).read() for each in archive.getmembers()}  # type: ignore[union-attr]
    (image,) = json.loads(files["manifest.json"])
    assert image["RepoTags"] == [images.PAUSE, images.SHELL]
    layer = files[image["Layers"][0]]
    digests = json.loads(files[image["Config"]])["rootfs"]["diff_ids"]
    assert digests == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as unpacked:
        assert unpacked.getmember("bin/busybox").mode == 0o755
        assert unpacked.getmember("bin/sh").linkname == "busybox"
