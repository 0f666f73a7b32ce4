"""Rows are written in portions."""

from hypothesis import given
from hypothesis import strategies as st

from rota.store.backends.sqlite import statements


@given(st.lists(st.integers(), max_size=600))
def test_portions_hold_everything_in_order_and_come_in_few_sizes(items: list[int]) -> None:
    found = [list(portion) for portion in statements.portions(items)]
    assert [item for portion in found for item in portion] == items
    assert {len(portion) for portion in found} <= {1, 2, 8, 32, 128}
