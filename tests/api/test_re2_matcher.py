import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api import re2_matcher


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^a+$", ["a", "aaa"], ["", "b", "ab", "a\n"]),
        ("b", ["abc", "b"], ["", "ac"]),
        ("^(x|y)$", ["x", "y"], ["xy", "z"]),
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", ["a", "a-b", "0"], ["-a", "a-", "A"]),
        ("^[^/]+/[^/]+$", ["a/b"], ["a", "a/b/c", "/b"]),
        (r"^\d{3}-\d{2,}$", ["123-45", "123-4567"], ["123-4", "12-34", "١٢٣-45"]),
        (r"^[[:alpha:]_][[:word:]]*$", ["_a1", "A"], ["1a", ""]),
        (r"^[[:^digit:]]$", ["a"], ["1"]),
        (r"^\p{Lu}\pL*$", ["Äb", "A"], ["ab", "A1"]),
        (r"^\P{L}$", ["1"], ["a"]),
        (r"^\p{Greek}+$", ["αβγ"], ["abc"]),
        (r"^\Q\C\E$", ["\\C"], ["C"]),
        ("(?i)^abc$", ["ABC", "aBc"], ["abd"]),
        ("(?i)^[a-c]$", ["B"], ["D"]),
        ("^(?:a(?i)b)c$", ["abc", "aBc"], ["abC", "Abc"]),
        ("(?s)^a.b$", ["a\nb"], ["ab"]),
        ("^a.b$", ["a-b", "aäb"], ["a\nb"]),
        ("(?m)^b$", ["a\nb\nc"], ["ab"]),
        (r"\bcat\b", ["a cat!", "cat"], ["concat", "cats"]),
        (r"\Bcat", ["concat"], ["cat", "a cat"]),
        (r"\Aab\z", ["ab"], ["ab\n", "xab"]),
        (r"^\Qa.b*\E+$", ["a.b*", "a.b***"], ["axb"]),
        (r"^\x41\x{1F600}\101\n$", ["A\U0001f600A\n"], ["A"]),
        ("^(?P<name>a)(?<other>b)$", ["ab"], ["a"]),
        ("^a{2}b{0,1}c{1,}$", ["aac", "aabcc"], ["abc", "aabb"]),
        ("^a{,2}$", ["a{,2}"], ["aa"]),
        ("^x*?y+?z??$", ["yz", "xy"], ["x"]),
        ("", ["", "a"], []),
        ("a|", ["", "b"], []),
        ("^[]a]+$", ["]a"], ["b"]),
        ("^[a-]+$", ["a-"], ["b"]),
        (r"^[\w.-]+$", ["a_1.b-c"], ["a b"]),
        (r"^[\]\\]$", ["]", "\\"], ["a"]),
    ],
)
def test_an_expression_matches_what_it_matches_in_go(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = re2_matcher.compile_pattern(pattern)
    assert [text for text in matching if not compiled.search(text)] == []
    assert [text for text in others if compiled.search(text)] == []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)", "invalid or unsupported Perl syntax: `(?<!`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
        (r"\p{Klingon}", r"invalid character class range: `\p{Klingon}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("((a{100}){100}){100}", "invalid repeat count: `{100}`"),
        (r"\p{L}{900}", "expression too large"),
        ("\ud800", "invalid UTF-8: `?`"),
    ],
)
def test_what_cannot_be_used_is_refused_in_the_words_of_go(pattern: str, message: str) -> None:
    with pytest.raises(re2_matcher.PatternError, match=re.escape(f"error parsing regexp: {message}")):
        re2_matcher.compile_pattern(pattern)


def test_no_text_keeps_the_matcher_busy() -> None:
    # a backtracking matcher would practically never end
    assert not re2_matcher.compile_pattern("^(a+)+$").search("a" * 5000 + "b")
    assert not re2_matcher.compile_pattern("^(a|a?)+$").search("a" * 5000 + "b")
    assert re2_matcher.compile_pattern("(x+x+)+y").search("x" * 5000 + "y")


_ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\d", r"\b", "^", "$"])
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map("(?:{})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(_EXPRESSIONS, st.lists(st.text("abc1 ", max_size=6), min_size=1, max_size=4))
def test_where_both_languages_agree_so_do_the_matchers(expression: str, texts: list[str]) -> None:
    compiled, expected = re2_matcher.compile_pattern(expression), re.compile(expression, re.ASCII)
    assert [compiled.search(text) for text in texts] == [expected.search(text) is not None for text in texts]
