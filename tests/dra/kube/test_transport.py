import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.kube.transport import FRAME_BYTES_MAX, FrameSplitter, FrameTooLargeError


@pytest.mark.parametrize(
    ("chunks", "blocks"),
    [
        pytest.param([b"a\n"], [b"a\n"], id="whole-frame"),
        pytest.param([b"a\nb\n"], [b"a\nb\n"], id="all-that-arrived-in-one-block"),
        pytest.param([b"a\nb"], [b"a\n"], id="beginning-of-a-frame-is-kept-back"),
        pytest.param([b"a", b"b", b"\n"], [b"", b"", b"ab\n"], id="frame-in-pieces"),
        pytest.param([b"a\nb", b"c\nd\n"], [b"a\n", b"bc\nd\n"], id="rest-goes-in-front"),
        pytest.param([b"", b"\n"], [b"", b"\n"], id="empty-frame"),
    ],
)
def test_blocks_end_behind_a_newline(chunks, blocks):
    cutter = FrameSplitter()
    assert [cutter.feed(chunk) for chunk in chunks] == blocks


@given(st.lists(st.binary(max_size=5).map(lambda raw: raw.replace(b"x", b"\n"))))
def test_however_the_network_cuts_no_byte_of_a_whole_frame_is_lost_or_moved(chunks):
    cutter = FrameSplitter()
    blocks = [cutter.feed(chunk) for chunk in chunks]
    sent = b"".join(chunks)
    assert b"".join(blocks) == sent[: sent.rfind(b"\n") + 1]
    assert all(block.endswith(b"\n") for block in blocks if block)


def test_a_frame_may_be_longer_than_any_buffer():
    cutter = FrameSplitter()
    for _ in range(200):
        assert cutter.feed(b"x" * 10_000) == b""
    assert len(cutter.feed(b"\n")) == 2_000_001


def test_the_longest_object_of_etcd_fits_however_its_characters_are_escaped():
    """Otherwise each event of one pod with an environment of `<` makes every informer of pods list all of them."""
    escaped = b"\\u003c" * (3 << 19)
    cutter = FrameSplitter()
    chunks = [escaped[start : start + 65_536] for start in range(0, len(escaped), 65_536)]
    assert not any(cutter.feed(chunk) for chunk in chunks)
    assert len(cutter.feed(b"\n")) == len(escaped) + 1


def test_a_frame_longer_than_any_object_is_an_error():
    cutter = FrameSplitter()
    assert cutter.feed(b"a\n" + b"x" * FRAME_BYTES_MAX) == b"a\n"
    with pytest.raises(FrameTooLargeError):
        cutter.feed(b"x")


def test_many_frames_may_be_longer_together():
    cutter = FrameSplitter()
    for _ in range(20):
        cutter.feed(b"x" * (FRAME_BYTES_MAX // 4))
        assert cutter.feed(b"\nx")
