"""Where base64 is broken; the positions are those that Go's decoder was seen to name."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import base64s


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", None),
        ("AA==", None),
        ("AA\n==", None),
        ("QUJD", None),
        ("Secret", 4),
        ("..", 0),
        ("QUJD*", 4),
        ("A===", 1),
        ("AA=", 3),
        ("AA=A", 3),
        ("AAA=B", 4),
        ("AA==AA==", 4),
        ("é", 0),
    ],
)
def test_the_place_is_the_one_that_go_names(text: str, position: int | None) -> None:
    assert base64s.broken_at(text) == position


@given(st.binary())
def test_what_was_encoded_is_whole(data: bytes) -> None:
    assert base64s.broken_at(base64.b64encode(data).decode()) is None


@given(st.binary(min_size=1), st.data())
def test_what_is_cut_short_is_broken(data: bytes, cut: st.DataObject) -> None:
    text = base64.b64encode(data).decode()
    kept = cut.draw(st.integers(1, len(text) - 1).filter(lambda length: length % 4))
    assert base64s.broken_at(text[:kept]) is not None
