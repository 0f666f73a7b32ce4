"""YAML has the meaning of go-yaml v2, and no document exceeds its budget."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from rota.apiserver import yaml_values


def _bomb(levels: int, width: int) -> bytes:
    lines = ["m0: &m0 {a: 1, b: 2, c: 3, d: 4}"]
    for level in range(1, levels):
        references = ", ".join([f"*m{level - 1}"] * width)
        lines.append(f"m{level}: &m{level} {{<<: [{references}]}}")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 'y', \"z\"]\nc: {}", {"a": 1, "b": ["x", "y", "z"], "c": {}}),
        ("a: yes\nb: off\nc: 'yes'\nd: n", {"a": True, "b": False, "c": "yes", "d": False}),
        ("[~, null, NULL]", [None, None, None]),
        ("[0x1F, 0b11, 017, 0o17, 1_000, -12, +3, 08]", [31, 3, 15, 15, 1000, -12, 3, 8.0]),
        (
            "[1.5, .5, 1e3, -1.5e-3, 1., 2001-01-01, '12:30', 12:30, 1.2.3]",
            [1.5, 0.5, 1000.0, -0.0015, 1.0, "2001-01-01", "12:30", "12:30", "1.2.3"],
        ),
        ("[18446744073709551615, 18446744073709551616]", [2**64 - 1, float(2**64)]),
        ("1: a\ntrue: b\n1.5: c", {"1": "a", "true": "b", "1.5": "c"}),
        ("a: !!str 1\nb: !!int '2'\nc: !!float 3", {"a": "1", "b": 2, "c": 3.0}),
        ("base: &b {x: 1, z: 2}\nchild:\n  <<: *b\n  z: 3", {"base": {"x": 1, "z": 2}, "child": {"x": 1, "z": 3}}),
        (
            "a: &a {x: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b]}",
            {"a": {"x": 1}, "b": {"x": 2, "z": 2}, "c": {"x": 1, "z": 2}},
        ),
        ('a: {"<<": 1}', {"a": {"<<": 1}}),
        ("", None),
        ("--- a\n...\n", "a"),
    ],
)
def test_a_document_means_what_it_means_to_kubernetes(text: str, value: Any) -> None:
    assert yaml_values.load(text.encode()) == (value, [])


def test_an_alias_is_a_copy() -> None:
    value, _ = yaml_values.load(b"a: &a [1]\nb: *a")
    value["a"].append(2)
    assert value["b"] == [1]


def test_repeated_keys_are_reported() -> None:
    assert yaml_values.load(b"a: 1\nb: {c: 1, c: 2}\na: 2") == ({"a": 2, "b": {"c": 2}}, ["c", "a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x: [" + b"a," * 1_000_000 + b"a]", "more than 500000 values"),
        (b"[" * 100_000, "exceeded max depth"),
        (b"- " * 100_000 + b"a", "exceeded max depth"),
        (b"{a: " * 100_000, "exceeded max depth"),
        (b"? " * 100_000, "exceeded max depth|a key must be a string"),
        (b"".join(b"%%TAG !%d! tag:x:\n" % number for number in range(100_000)) + b"--- a", "too many directives"),
        (b"a: &a [*a]", "contains itself"),
        (b"a: &a {<<: *a}", "contains itself"),
        (b"a: *b", "unknown anchor"),
        (b"a: 1\n---\nb: 2", "single document"),
        (b"<<: 1", "map merge requires"),
        (b"a: .inf", "cannot express"),
        (b"a: &a " + b"[" * 200 + b"]" * 200 + b"\nb: " + b"[" * 100 + b"*a" + b"]" * 100, "exceeded max depth"),
        (
            b"\n".join(
                [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
                + [
                    b"a%d: &a%d [%b]" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 10))
                    for level in range(1, 9)
                ]
            ),
            "excessive aliasing",
        ),
    ],
)
@pytest.mark.timeout(20)
def test_a_document_beyond_the_budget_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(yaml_values.YamlError, match=message):
        yaml_values.load(text)


@pytest.mark.timeout(20)
def test_merge_keys_do_not_multiply() -> None:
    value, _ = yaml_values.load(_bomb(levels=400, width=8))
    assert value["m399"] == {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("digits", ["1" * 1_000_000, "1:" * 500_000 + "1", "0x" + "f" * 1_000_000, "1" * 999_999 + "."])
def test_a_long_number_is_no_work(digits: str) -> None:
    yaml_values.load(f"a: {digits}".encode())


_TEXTS = some.text(some.characters(categories=("L", "N", "P")))
_VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**64 - 1) | _TEXTS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_json_is_yaml(value: Any) -> None:
    assert yaml_values.load(json.dumps(value, ensure_ascii=False).encode()) == (value, [])


@given(_VALUES)
def test_what_is_written_is_read_again(value: Any) -> None:
    text = yaml_values.dump(value)
    assert yaml.safe_load(text) == value
    assert text == yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True, encoding="utf-8")
