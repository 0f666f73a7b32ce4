"""SPDY/3.1 frames: what is written is read again however it is cut, and hostile bytes are an error and nothing else."""

import itertools
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit import spdy
from rota.kit.spdy import Asked, Broken, Frame, Leaving, Opened, Reader, Sent, SpdyError, Writer


def test_the_dictionary_is_the_protocols() -> None:
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)


_HEADERS = st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=40), max_size=5)


@given(
    opened=st.lists(st.tuples(st.integers(1, 2**31 - 1), _HEADERS, st.booleans()), max_size=5),
    sent=st.lists(st.tuples(st.integers(1, 2**31 - 1), st.binary(max_size=200), st.booleans()), max_size=5),
    cuts=st.lists(st.integers(0, 2000), max_size=10),
)
def test_frames_are_read_however_they_are_cut(
    opened: list[tuple[int, dict[str, str], bool]], sent: list[tuple[int, bytes, bool]], cuts: list[int]
) -> None:
    client, reader = Writer(), Reader()
    whole = b"".join(client.open(stream, headers, last=last) for stream, headers, last in opened)
    whole += b"".join(spdy.data(stream, content, last=last) for stream, content, last in sent)
    borders = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    found: list[Frame] = []
    for start, end in itertools.pairwise(borders):
        found += reader.feed(whole[start:end])
    expected: list[Frame] = [Opened(stream, headers, last) for stream, headers, last in opened]
    assert found == expected + [Sent(stream, content, last) for stream, content, last in sent]


@given(st.binary(max_size=400))
def test_anything_else_is_an_error_and_nothing_worse(noise: bytes) -> None:
    reader = Reader()
    try:
        list(reader.feed(noise))
        list(reader.feed(b"\x80\x03\x00\x01" + noise))
    except SpdyError:
        pass


def test_small_frames_are_what_they_are() -> None:
    whole = spdy.refuse(5) + spdy.pong(7) + b"\x80\x03\x00\x07\x00\x00\x00\x08" + bytes(8)
    whole += b"\x80\x03\x00\x04\x00\x00\x00\x04" + bytes(4)  # settings
    assert list(Reader().feed(whole)) == [Broken(5), Asked(7), Leaving()]
    assert spdy.data(5, b"x", last=True) == struct.pack("!II", 5, 1 << 24 | 1) + b"x"
    reply = Writer().accept(9)
    assert reply[:4] == b"\x80\x03\x00\x02"
    assert zlib.decompressobj(zdict=spdy.DICTIONARY).decompress(reply[12:]) == bytes(4)


def _opening(headers: bytes) -> bytes:
    """SYN_STREAM with these headers."""
    content = struct.pack("!IIH", 1, 0, 0) + Writer().packed(headers)
    return struct.pack("!II", 0x80030001, len(content)) + content


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x80\x02\x00\x01\x00\x00\x00\x00",
        b"\x80\x03\x00\x01\x00\x00\x00\x04abcd",
        b"\x80\x03\x00\x03\x00\x00\x00\x01a",
        b"\x00\x00\x00\x01\x00\xff\xff\xff",
        _opening(struct.pack("!I", 1 << 31)),
        _opening(struct.pack("!III", 1, 1 << 30, 1)),
        _opening(bytes(10 << 20)),
        _opening(b""),
    ],
)
def test_what_is_too_large_or_breaks_off_is_refused(hostile: bytes) -> None:
    with pytest.raises(SpdyError):
        list(Reader().feed(hostile))
