"""WebSocket frames: what a client sends in any pieces is read as it was meant, and a broken client is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.web import frames


def masked(kind: int, content: bytes, *, final: bool = True, mask: bytes = b"\x11\x22\x33\x44") -> bytes:
    size = len(content)
    head = bytes([(0x80 if final else 0) | kind])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return head + mask + bytes(one ^ mask[at % 4] for at, one in enumerate(content))


def test_the_proof_of_a_handshake_is_that_of_the_standard() -> None:
    assert frames.accept(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.integers(1, 40), st.binary(min_size=4, max_size=4))
def test_messages_arrive_whole_however_they_are_cut(contents: list[bytes], piece: int, mask: bytes) -> None:
    sent = b"".join(masked(frames.TEXT, one, mask=mask) for one in contents)
    reader = frames.Reader()
    found = [one for at in range(0, len(sent), piece) for one in reader.feed(sent[at : at + piece])]
    assert [one.content for one in found] == contents


def test_fragments_make_one_message_with_control_frames_between_them() -> None:
    sent = masked(frames.TEXT, b"he", final=False) + masked(frames.PING, b"?") + masked(0, b"llo")
    assert [(one.kind, one.content) for one in frames.Reader().feed(sent)] == [
        (frames.PING, b"?"),
        (frames.TEXT, b"hello"),
    ]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x81\x02hi", 1002),
        (masked(0, b"no beginning"), 1002),
        (masked(frames.TEXT, b"a", final=False) + masked(frames.TEXT, b"b"), 1002),
        (b"\xc1" + masked(frames.TEXT, b"x")[1:], 1002),
        (masked(frames.PING, b"", final=False), 1002),
        (masked(frames.TEXT, b"x" * (frames.MAX_MESSAGE_BYTES + 1)), 1009),
    ],
)
def test_a_client_that_breaks_the_protocol_is_refused(sent: bytes, code: int) -> None:
    with pytest.raises(frames.ProtocolError) as refusal:
        frames.Reader().feed(sent)
    assert refusal.value.code == code


@given(st.integers(0, 70_000))
def test_a_frame_of_the_server_says_its_length(size: int) -> None:
    frame = frames.encode(frames.TEXT, b"x" * size)
    wide = 0 if size < 126 else 2 if size < 1 << 16 else 8
    assert len(frame) == 2 + wide + size
    assert frame[1] == (size if not wide else 126 if wide == 2 else 127)
