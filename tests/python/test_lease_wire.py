"""Frames: what is sent arrives, in whatever pieces, and what no peer may send is refused."""

import os
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.python import lease_held, lease_wire
from rota.python.lease_wire import BadFrame, Channel, Closed, Frame


def pair(most_bytes: int = lease_wire.MOST_BYTES) -> tuple[Channel, Channel]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    return Channel(left), Channel(right, most_bytes=most_bytes)


def carried(left: Channel, right: Channel) -> list[Frame]:
    frames: list[Frame] = []
    while not left.flush():
        frames += right.receive()
    return frames + right.receive()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 255),
            st.integers(0, 2**64 - 1),
            st.binary(max_size=200),
            st.lists(st.integers(0, 600_000), max_size=4),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_what_is_sent_arrives_in_order(sent: list[tuple[int, int, bytes, list[int]]]) -> None:
    left, right = pair()
    expected = []
    for kind, call, meta, sizes in sent:
        buffers = [os.urandom(one) for one in sizes]
        left.send(kind, call, flags=kind % 7, meta=meta, buffers=buffers)
        expected.append((kind, call, kind % 7, meta, buffers))
    got = carried(left, right)
    assert [(one.kind, one.call, one.flags, one.meta, one.buffers) for one in got] == expected
    assert left.unsent == 0
    left.close()
    with pytest.raises(Closed):
        right.receive()
    right.close()


@pytest.mark.parametrize(
    ("count", "meta", "lengths"),
    [(0, 2**32 - 1, []), (1, 0, [2**63]), (2, 0, [2**20, 2**20]), (lease_wire.MOST_BUFFERS + 1, 0, [])],
)
def test_a_frame_that_is_too_large_is_refused_before_memory_is_taken(count: int, meta: int, lengths: list[int]) -> None:
    left, right = pair(most_bytes=2**20)
    head = lease_wire.HEADER.pack(lease_wire.CALL, 0, count, meta, 1)
    left.socket.sendall(head + b"".join(lease_wire.NUMBER.pack(one) for one in lengths))
    with pytest.raises(BadFrame, match="are allowed"):
        right.receive()
    left.close()
    right.close()


def test_calls_and_results_that_are_cut_off_are_refused() -> None:
    whole = lease_wire.call_meta(b"d" * 32, 1.5, [7, 8], b"arguments")
    digest, timeout, refs, arguments = lease_wire.read_call(whole)
    assert (digest, timeout, refs, bytes(arguments)) == (b"d" * 32, 1.5, [7, 8], b"arguments")
    with pytest.raises(BadFrame):
        lease_wire.read_call(whole[:50])
    with pytest.raises(BadFrame):
        lease_wire.read_result(b"short")
    took, printed, size, value = lease_wire.read_result(lease_wire.result_meta(0.25, b"hi", 3, b"xyz"))
    assert (took, printed, size, bytes(value)) == (0.25, b"hi", 3, b"xyz")
    assert struct.calcsize(lease_wire.HEADER.format) == 16


def result(number: int, size: int) -> Frame:
    frame = Frame(lease_wire.RESULT, number, meta=lease_wire.result_meta(0.0, b"", size, b"p"))
    frame.buffers = [os.urandom(size)]
    return frame


def test_results_beyond_the_memory_are_in_files_and_come_back_unchanged() -> None:
    held = lease_held.Held(memory_bytes=4 << 20)
    frames = [result(number, 2 << 20) for number in range(5)]
    contents = [bytes(one.buffers[0]) for one in frames]
    assert all(held.takes(one) for one in frames)
    assert held.memory <= 4 << 20
    left, right = pair()
    for number, content in enumerate(contents):
        found = held.frame(number)
        assert found is not None
        left.forward(found)
        assert [bytes(one.buffers[0]) for one in carried(left, right)] == [content]
        held.drop(number)
    assert not held
    assert not held.takes(result(9, 10)), "a small one is sent at once"
    left.close()
    right.close()
