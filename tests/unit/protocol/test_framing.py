"""Frames: any stream, cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinlater.protocol.framing import FrameSplitter, FrameTooLarge, frame_length, with_header
from tests.support.examples import examples

payloads = st.lists(st.binary(max_size=300), max_size=8)


def _cut(stream, places):
    """Return the stream in pieces, cut at the given places."""
    bounds = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(bounds)]


@examples(100)
@given(payloads, st.lists(st.integers(0, 10**6), max_size=20), st.binary(max_size=6))
def test_frames_come_out_whole_however_the_stream_is_cut(frames, places, rest):
    started = with_header(b"x" * 1000)[: len(rest)]
    stream = b"".join(map(with_header, frames)) + started
    splitter = FrameSplitter()
    found = [frame for piece in _cut(stream, places) for frame in splitter.feed(piece)]
    assert found == frames
    assert bool(splitter.announced) == bool(started)


def test_byte_by_byte():
    splitter = FrameSplitter()
    found = []
    for byte in with_header(b"hello") + with_header(b"") + with_header(b"world"):
        found += splitter.feed(bytes([byte]))
    assert found == [b"hello", b"", b"world"]
    assert not splitter.announced


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
@pytest.mark.parametrize("before", [b"", with_header(b"ok"), with_header(b"")])
@pytest.mark.parametrize("step", [1, 3, 4, 5, 100])
def test_an_impossible_length_is_noticed_as_soon_as_it_is_there(length, before, step):
    stream = before + length.to_bytes(4, "big", signed=True)
    splitter = FrameSplitter(limit=100)
    with pytest.raises(FrameTooLarge, match=str(length)):
        list(map(splitter.feed, (stream[start : start + step] for start in range(0, len(stream), step))))


def test_the_largest_frame_is_taken():
    splitter = FrameSplitter(limit=100)
    assert splitter.feed(with_header(b"x" * 100)) == [b"x" * 100]
    assert frame_length((100).to_bytes(4, "big"), 100) == 100


def test_an_unfinished_frame_takes_no_more_memory_than_its_bytes():
    splitter = FrameSplitter()
    splitter.feed((16_000_000).to_bytes(4, "big"))
    splitter.feed(b"x" * 1000)
    assert len(splitter._rest) == 1004


def test_many_small_frames_in_one_piece():
    frames = [str(number).encode() for number in range(20_000)]
    assert FrameSplitter().feed(b"".join(map(with_header, frames))) == frames
