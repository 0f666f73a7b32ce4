"""CEL expressions: values, errors, costs and limits; `tests/stock/test_same_rules.py` compares with stock."""

from typing import Any

import pytest

from rota.api.cel import types
from rota.api.cel.environment import CompileError, Environment
from rota.api.cel.values import CostExceeded, Duration, ObjectValue, Timestamp, Uint

FIELDS = {
    "Self": {
        "count": types.INT,
        "name": types.STRING,
        "numbers": types.list_of(types.INT),
        "labels": types.map_of(types.STRING, types.STRING),
        "port": types.DYN,
    }
}
ENVIRONMENT = Environment({"self": types.object_of("Self")}, FIELDS.get)


def _self() -> ObjectValue:
    value = ObjectValue("Self")
    value.update(count=3, name="héllo", numbers=[1, 2, 3], labels={"a": "b"}, port=1.5)
    return value


def _evaluated(text: str) -> Any:
    outcome = ENVIRONMENT.compile(text).evaluate({"self": _self()})
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.count + 2 * 3 - 1", 8),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7u / 2u", Uint(3)),
        ("1 < 2 && 2.5 > 2.0 || false", True),
        ("self.numbers.all(x, x > 0)", True),
        ("self.numbers.exists(x, x == 2)", True),
        ("self.numbers.exists_one(x, x > 2)", True),
        ("self.numbers.map(x, x * 2)", [2, 4, 6]),
        ("self.numbers.map(x, x > 1, x * 2)", [4, 6]),
        ("self.numbers.filter(x, x != 2)", [1, 3]),
        ("self.numbers.transformList(i, v, i * v)", [0, 2, 6]),
        ("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}),
        ("[3, 1, 2].sortBy(x, -x)", [3, 2, 1]),
        ("1 / 0 == 1 || true", True),
        ("false && 1 / 0 == 1", False),
        ("1 / 0 == 1 && false", False),
        ("has(self.labels.a) && !has(self.labels.b)", True),
        ("self.labels[?'b'].orValue('c')", "c"),
        ("self.?name.value().size()", 5),
        ("optional.of(3).optMap(y, y + 1).value()", 4),
        ("[1, ?optional.none(), 2]", [1, 2]),
        ("{'a': 1, ?'b': optional.none()}", {"a": 1}),
        ("type(self.port) == double", True),
        ("dyn(1) == dyn(1.0) && dyn(1) != dyn('1')", True),
        ("dyn(true) == dyn(1)", False),
        ("{true: 'a', false: 'b'}[true]", "a"),
        ("duration('90m') + duration('1s')", Duration(5_401_000_000_000)),
        ("timestamp('1970-01-01T00:00:01Z')", Timestamp(1_000_000_000)),
        ("timestamp('2024-02-29T23:30:00Z').getDate('+01:00')", 1),
        ("string(timestamp('2023-01-01T00:00:00.5+02:00'))", "2023-01-01T00:00:00.5+02:00"),
        ("string(1e21) + ' ' + string(0.1) + ' ' + string(100.0)", "1e+21 0.1 100"),
        ("'%s %d %.2f %x'.format(['a', 3, 1.5, 255])", "a 3 1.50 ff"),
        ("'%.1f'.format([1234567.0])", "1,234,567.0"),
        ("'a-b-c'.split('-', 2).join('+')", "a+b-c"),
        ("'abcabc'.lastIndexOf('b')", 4),
        ("b'\\xff'.size()", 1),
        ("r'\\d' + '''x'''", "\\dx"),
        ("quantity('1Gi').isGreaterThan(quantity('1G'))", True),
        ("cidr('10.0.0.0/8').containsIP('10.9.9.9')", True),
        ("url('https://a.b:80/c?d=e').getPort()", "80"),
        ("semver('1.2.3-rc.1').isLessThan(semver('1.2.3'))", True),
        ("format.dns1123Label().validate('a').hasValue()", False),
        ("sets.equivalent([1, 2], [2, 1, 1])", True),
        ("'aXbX'.find('[A-Z]b')", "Xb"),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert _evaluated(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self.numbers[3]", "index out of bounds: 3"),
        ("self.labels['x']", "no such key: x"),
        ("1 / (self.count - 3)", "division by zero"),
        ("9223372036854775807 + self.count", "integer overflow"),
        ("dyn(1) + dyn('a')", "no such overload"),
        ("self.name.substring(9)", "index out of range: 9"),
        ("optional.none().value()", "optional.none() dereference"),
    ],
)
def test_errors_of_evaluation(text: str, message: str) -> None:
    outcome = ENVIRONMENT.compile(text).evaluate({"self": _self()})
    assert str(outcome.error) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self.nothing", "1:5: undefined field 'nothing'"),
        ("self.count + 'a'", "1:12: found no matching overload for '_+_' applied to '(int, string)'"),
        ("unknown", "1:1: undeclared reference to 'unknown' (in container '')"),
        ("self.name.foo()", "1:14: undeclared reference to 'foo' (in container '')"),
        ("self.count.all(x, x)", "cannot be range of a comprehension"),
        ("self.name.matches('[')", "1:19: invalid matches argument"),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        ("1 +", "Syntax error"),
        ("'open", "Syntax error"),
        ("for", "reserved identifier"),
        ("99999999999999999999", "invalid int literal"),
        ("has(self)", "invalid argument to has() macro"),
    ],
)
def test_errors_of_declaration_show_the_place(text: str, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        ENVIRONMENT.compile(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "!" * 20_000 + "true" + "!",
        "[" * 3000,
        "1" + " + 1" * 5000,
        "self" + ".labels" * 5000,
        "self.numbers" + ".map(x, x)" * 500,
        "'" + "a" * 200_000 + "'",
        "0x" + "f" * 50_000,
        "1" * 90_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(CompileError):
        ENVIRONMENT.compile(text)


def test_evaluation_stops_at_its_cost_limit() -> None:
    nested = ENVIRONMENT.compile("lists.range(900000).all(x, lists.range(900000).all(y, x + y >= 0))")
    outcome = nested.evaluate({"self": _self()})
    assert isinstance(outcome.error, CostExceeded)
    grown = ENVIRONMENT.compile("lists.range(30).map(x, 'a').exists(x, 1 / 0 == 1 || false)")
    assert str(grown.evaluate({"self": _self()}).error) == "division by zero"


def test_a_long_chain_of_conditions_is_not_deep() -> None:
    text = " || ".join(f"self.count == {number}" for number in range(2000))
    outcome = ENVIRONMENT.compile(text).evaluate({"self": _self()})
    assert outcome.value is True
    assert outcome.cost < 100
