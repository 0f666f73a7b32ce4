"""The parser: text to a syntax tree, with macros expanded."""

from typing import Final

from rota.api.cel import lexer, macros
from rota.api.cel.lexer import SyntaxIssue, Token
from rota.api.cel.syntax import Call, Ident, ListLiteral, Literal, MapLiteral, Node, ObjectLiteral, Select, TooDeep
from rota.api.cel.values import Uint

#: Of code points, as in the stock server.
MOST_CHARACTERS: Final = 100_000
_MOST_NESTING: Final = 60
_RELATIONS: Final = frozenset({"<", "<=", ">=", ">", "==", "!=", "in"})
_SUMS: Final = frozenset("+-")
_PRODUCTS: Final = frozenset("*/%")
#: What an expression may begin with.
_STARTS: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_LEVELS: Final = (_RELATIONS, _SUMS, _PRODUCTS)


def parse(text: str) -> Node:
    """The tree of an expression; SyntaxIssue if it has none."""
    if len(text) > MOST_CHARACTERS:
        raise SyntaxIssue(0, f"expression code point size exceeds limit: size: {len(text)}, limit {MOST_CHARACTERS}")
    try:
        return _Parser(list(lexer.tokens(text))).whole()
    except TooDeep:
        raise SyntaxIssue(0, "expression recursion limit exceeded") from None


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens: Final = tokens
        self._at = 0
        self._nesting = 0

    def whole(self) -> Node:
        found = self._expression()
        if self._token.kind != "end":
            self._unexpected("<EOF>")
        return found

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _accept(self, kind: str) -> Token | None:
        return self._take() if self._token.kind == kind else None

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            self._unexpected(f"'{kind}'" if kind != "name" else "IDENTIFIER")
        return self._take()

    def _unexpected(self, wanted: str) -> None:
        token = self._token
        raise SyntaxIssue(token.position, f"Syntax error: mismatched input '{token.text}' expecting {wanted}")

    def _expression(self) -> Node:
        self._nesting += 1
        if self._nesting > _MOST_NESTING:
            raise TooDeep
        condition = self._logic("||")
        question = self._accept("?")
        if question is not None:
            then = self._logic("||")
            self._expect(":")
            condition = Call(question.position, "_?_:_", [condition, then, self._expression()])
        self._nesting -= 1
        return condition

    def _logic(self, operator: str) -> Node:
        terms, places = [self._term(operator)], list[int]()
        while (token := self._accept(operator)) is not None:
            places.append(token.position)
            terms.append(self._term(operator))
        return _balanced(f"_{operator}_", terms, places)

    def _term(self, operator: str) -> Node:
        return self._logic("&&") if operator == "||" else self._binary(0)

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._token.kind in _LEVELS[level]:
            token = self._take()
            name = "@in" if token.kind == "in" else f"_{token.kind}_"
            left = Call(token.position, name, [left, self._binary(level + 1)])
        return left

    def _unary(self) -> Node:
        token = self._token
        if token.kind == "!":
            count = 0
            while self._accept("!"):
                count += 1
            operand = self._member()
            return Call(token.position, "!_", [operand]) if count % 2 else operand
        if token.kind == "-":
            count = 0
            while self._accept("-"):
                count += 1
            is_number = self._token.kind == "int" or type(self._token.value) is float
            if count == 1 and is_number:
                return self._suffixes(self._number(negative=True, position=token.position))
            operand = self._member()
            return Call(token.position, "-_", [operand]) if count % 2 else operand
        return self._member()

    def _number(self, *, negative: bool, position: int) -> Node:
        token = self._take()
        if token.kind == "int":
            return Literal(position, lexer.integer(token.value, negative=negative, position=position))
        return Literal(position, -token.value if negative else token.value)

    def _member(self) -> Node:
        return self._suffixes(self._primary())

    def _suffixes(self, found: Node) -> Node:
        while True:
            token = self._token
            if token.kind == ".":
                found = self._dotted(found)
            elif token.kind == "[":
                self._take()
                optional = self._accept("?") is not None
                index = self._expression()
                self._expect("]")
                found = Call(token.position, "_[?_]" if optional else "_[_]", [found, index])
            else:
                return found

    def _dotted(self, operand: Node) -> Node:
        dot = self._take()
        optional = self._accept("?") is not None
        name = self._expect("name")
        opening = self._token
        if not optional and self._accept("("):
            return self._call(opening.position, name, self._arguments(")"), operand)
        # A field may be spelled like a reserved word; other names may not.
        if optional:
            return Call(dot.position, "_?._", [operand, Literal(name.position, name.text)])
        return Select(dot.position, operand, name.text)

    def _call(self, position: int, name: Token, args: list[Node], target: Node | None) -> Node:
        expanded = macros.expand(name.text, position, target, args)
        return expanded if expanded is not None else Call(position, name.text, args, target)

    def _arguments(self, closing: str) -> list[Node]:
        found: list[Node] = []
        if self._accept(closing):
            return found
        while True:
            found.append(self._expression())
            if self._accept(closing):
                return found
            self._expect(",")

    def _primary(self) -> Node:
        token = self._token
        match token.kind:
            case "literal":
                self._take()
                return Literal(token.position, token.value)
            case "int":
                return self._number(negative=False, position=token.position)
            case "unsigned":
                self._take()
                return Literal(token.position, Uint(token.value))
            case "(":
                self._take()
                inner = self._expression()
                self._expect(")")
                return inner
            case "[":
                return self._list()
            case "{":
                self._take()
                return MapLiteral(token.position, self._entries())
            case "." | "name":
                return self._named()
        raise SyntaxIssue(token.position, f"Syntax error: mismatched input '{token.text}' expecting {_STARTS}")

    def _named(self) -> Node:
        leading = "." if self._accept(".") else ""
        name = self._expect("name")
        if name.text in lexer.RESERVED:
            raise SyntaxIssue(name.position, f"reserved identifier: {name.text}")
        opening = self._token
        if self._accept("("):
            return self._call(opening.position, name, self._arguments(")"), None)
        if (literal := self._object(leading, name)) is not None:
            return literal
        return Ident(name.position, leading + name.text)

    def _object(self, leading: str, name: Token) -> Node | None:
        """`a.b.C{field: value}`, if it is one."""
        at, names = self._at, [name.text]
        while self._tokens[at].kind == "." and self._tokens[at + 1].kind == "name":
            names.append(self._tokens[at + 1].text)
            at += 2
        if self._tokens[at].kind != "{":
            return None
        self._at = at + 1
        opening = self._tokens[at]
        fields: list[tuple[str, Node, bool, int]] = []
        while not self._accept("}"):
            optional = self._accept("?") is not None
            field = self._expect("name")
            colon = self._expect(":")
            fields.append((field.text, self._expression(), optional, colon.position))
            if not self._accept(","):
                self._expect("}")
                break
        return ObjectLiteral(opening.position, leading + ".".join(names), fields)

    def _list(self) -> Node:
        opening = self._take()
        elements: list[Node] = []
        optional: set[int] = set()
        while not self._accept("]"):
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._accept(","):
                self._expect("]")
                break
        return ListLiteral(opening.position, elements, frozenset(optional))

    def _entries(self) -> list[tuple[Node, Node, bool]]:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._accept("}"):
            optional = self._accept("?") is not None
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
            if not self._accept(","):
                self._expect("}")
                break
        return entries


def _balanced(name: str, terms: list[Node], places: list[int]) -> Node:
    """A balanced tree of a chain of terms, so that long chains are not deep."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(places)) // 2
    left = _balanced(name, terms[: middle + 1], places[:middle])
    right = _balanced(name, terms[middle + 1 :], places[middle + 1 :])
    return Call(places[middle], name, [left, right])
