"""Quantities against known upstream answers and against a model in exact fractions."""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import quantities
from rota.api.quantities import Format, Quantity, QuantityError

MAX = quantities.MAX_INT64

_SCALES = {
    **{suffix: Fraction(10) ** exponent for suffix, exponent in zip("num", (-9, -6, -3), strict=True)},
    "": Fraction(1),
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", 1)},
    **{suffix + "i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "0"),
        ("0n", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("100m", "100m"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("0.5Mi", "512Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.3Mi", "314572800m"),
        ("1000k", "1M"),
        ("1000", "1k"),
        ("1000000", "1M"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("1023Ki", "1023Ki"),
        ("512Ki", "512Ki"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("12e6", "12e6"),
        ("1e2", "100"),
        ("1e4", "10e3"),
        ("1e-3", "1e-3"),
        ("1E-3", "1E-3"),
        ("1.1e-3", "1100e-6"),
        ("1e-10", "1e-9"),
        ("1E", "1E"),
        ("1.5", "1500m"),
        ("1.", "1."),
        (".5", "500m"),
        ("+5", "+5"),
        ("-5", "-5"),
        ("-1.5Gi", "-1536Mi"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"),
        ("8Ei", "9223372036854775807"),
        ("7Ei", "7Ei"),
        ("1000E", "1000E"),
        ("0.0001Ki", "102400u"),
        ("100Ki", "100Ki"),
        ("-", "0"),
        ("m", "0"),
    ],
)
def test_canonical_form_is_what_upstream_prints(text: str, expected: str) -> None:
    assert quantities.canonical(text) == expected


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("0", 0, 0),
        ("1m", 1, 1),
        ("1n", 1, 1),
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("2", 2, 2000),
        ("1.5Gi", 1610612736, 1610612736000),
        ("-1500m", -2, -1500),
        ("1e3", 1000, 10**6),
        ("8Ei", MAX, MAX),
        ("1e400", MAX, MAX),
        ("-1e400", -MAX - 1, -MAX - 1),
        ("10E", MAX, MAX),
        ("9E", 9 * 10**18, MAX),
    ],
)
def test_values_are_rounded_up_and_saturate(text: str, value: int, milli: int) -> None:
    assert quantities.value(text) == value
    assert quantities.milli(text) == milli


@pytest.mark.parametrize("text", ["", " ", "1 ", " 1", "abc", "1.1.1", "0x10", "1K-i", "1e3Ki", "1,5"])
def test_malformed_text_names_the_expression(text: str) -> None:
    with pytest.raises(QuantityError, match="quantities must match the regular expression"):
        quantities.parse(text)


@pytest.mark.parametrize(
    "text", ["1ki", "1K", "1i", "1e", "1mi", "1EE", "1Mim", "1e99999999999", "1e2000", "1+1", "--1"]
)
def test_an_unknown_suffix_is_said_to_be_one(text: str) -> None:
    with pytest.raises(QuantityError, match="unable to parse quantity's suffix"):
        quantities.parse(text)


@pytest.mark.parametrize("text", ["e-10", "9" * (sys.get_int_max_str_digits() + 1)])
def test_a_missing_or_endless_number_is_said_to_be_one(text: str) -> None:
    with pytest.raises(QuantityError, match="unable to parse numeric part of quantity"):
        quantities.parse(text)


def test_a_tiny_exponent_costs_nothing_and_rounds_up() -> None:
    assert quantities.parse("1e-999999999").nanos == 1
    assert quantities.parse("0e-999999999").nanos == 0


@pytest.mark.parametrize(
    ("wire", "expected"),
    [(2, "2"), (0.5, "500m"), (1e22, "10e21"), (" 1Gi ", "1Gi"), (None, "0"), (1000, "1k")],
)
def test_json_numbers_strings_and_null_are_accepted(wire: object, expected: str) -> None:
    assert str(quantities.from_wire(wire)) == expected


@pytest.mark.parametrize("wire", [True, [], {}, math.nan, math.inf])
def test_other_json_values_are_refused(wire: object) -> None:
    with pytest.raises(QuantityError):
        quantities.from_wire(wire)


def test_a_sum_keeps_the_notation_of_its_first_non_zero_term() -> None:
    zero, binary, decimal = quantities.ZERO, quantities.parse("1Gi"), quantities.parse("1G")
    assert str(binary + decimal) == str(Quantity(binary.nanos + decimal.nanos, Format.BINARY_SI))
    assert (zero + binary).format is Format.BINARY_SI
    assert (binary - binary + decimal).format is Format.DECIMAL_SI
    assert str(quantities.parse("1536Mi") - quantities.parse("512Mi")) == "1Gi"


def test_equality_order_and_hash_ignore_the_notation() -> None:
    one, same = quantities.parse("1Ki"), quantities.parse("1024")
    assert one == same
    assert hash(one) == hash(same)
    assert quantities.parse("1k") < one <= same
    assert one != "1Ki"


quantity_texts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**22).map(str),
    st.one_of(st.just(""), st.text("0123456789", max_size=14).map(lambda digits: "." + digits)),
    st.sampled_from(sorted(_SCALES)),
)
quantity_values = st.one_of(
    st.builds(Quantity, st.integers(-(10**30), 10**30), st.sampled_from(Format)).filter(
        lambda quantity: quantity.format is not Format.BINARY_SI
    ),
    st.builds(Quantity, st.integers(-MAX * 10**9, MAX * 10**9), st.just(Format.BINARY_SI)),
)


def _model(text: str) -> Fraction:
    number = text.rstrip("numkKMGTPEi")
    exact = Fraction(number.rstrip(".")) * _SCALES[text[len(number) :]]
    nanos = exact * 10**9
    rounded = math.ceil(nanos) if nanos >= 0 else math.floor(nanos)
    if text.endswith("i"):
        rounded = max(-MAX * 10**9, min(rounded, MAX * 10**9))
    return Fraction(rounded, 10**9)


@given(quantity_texts)
def test_parsing_agrees_with_exact_fractions(text: str) -> None:
    assert Fraction(quantities.parse(text).nanos, 10**9) == _model(text)


@given(quantity_texts)
def test_value_and_milli_round_away_from_zero(text: str) -> None:
    exact = _model(text)
    for scale, got in ((1, quantities.value(text)), (1000, quantities.milli(text))):
        scaled = exact * scale
        rounded = math.ceil(scaled) if scaled >= 0 else math.floor(scaled)
        assert got == max(-MAX - 1, min(rounded, MAX))


@given(quantity_texts)
def test_canonicalising_twice_changes_neither_text_nor_amount(text: str) -> None:
    first = quantities.parse(quantities.canonical(text))
    assert first == quantities.parse(text)
    assert quantities.canonical(str(first)) == str(first)


@given(quantity_values)
def test_printing_and_parsing_keeps_the_amount(quantity: Quantity) -> None:
    assert quantities.parse(str(quantity)) == quantity


@given(quantity_values, quantity_values)
def test_arithmetic_and_order_are_those_of_the_amounts(left: Quantity, right: Quantity) -> None:
    assert (left + right).nanos == left.nanos + right.nanos
    assert left + right == right + left
    assert (left - right) == left + -right
    assert (left < right) == (left.nanos < right.nanos)


@given(st.text("0123456789.eE+-numkKMGTPi ", max_size=12))
def test_any_text_parses_or_gives_a_quantity_error(text: str) -> None:
    try:
        quantity = quantities.parse(text)
    except QuantityError:
        return
    assert quantities.parse(str(quantity)) == quantity
