"""Archives depend on names, modes and contents of their files, and on nothing else."""

import tarfile

from release.archives import Entry, write_archive


def test_the_same_files_make_the_same_bytes_in_any_order(tmp_path):
    files = {"b/c": Entry(b"1"), "a": Entry(b"2", 0o755)}
    write_archive(tmp_path / "first.tar.gz", files)
    write_archive(tmp_path / "second.tar.gz", dict(reversed(files.items())))
    assert (tmp_path / "first.tar.gz").read_bytes() == (tmp_path / "second.tar.gz").read_bytes()


def test_files_keep_content_and_mode_and_belong_to_nobody(tmp_path):
    write_archive(tmp_path / "a.tar.gz", {"b": Entry(b"1"), "a": Entry(b"2", 0o755)})
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        assert [(each.name, each.mode, each.mtime, each.uname) for each in archive] == [
            ("a", 0o755, 0, ""),
            ("b", 0o644, 0, ""),
        ]
        assert archive.extractfile("b").read() == b"1"
