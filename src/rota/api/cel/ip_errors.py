"""Why a text is no IP address, in the words of Go's parser."""

_GROUPS = 8


def why(text: str) -> str:
    """The error about a text that is no address."""
    for letter in text:
        if letter == ".":
            return f'ParseAddr("{text}"): {_four(text, text)}'
        if letter == ":":
            return f'ParseAddr("{text}"): {_six(text)}'
        if letter == "%":
            return f'ParseAddr("{text}"): missing IPv6 address'
    return f'ParseAddr("{text}"): unable to parse IP'


def _four(text: str, whole: str) -> str:
    value = position = digits = 0
    for at, letter in enumerate(text):
        if "0" <= letter <= "9":
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero"
            value, digits = value * 10 + int(letter), digits + 1
            if value > 255:
                return "IPv4 field has value >255"
        elif letter == ".":
            if at == 0 or at == len(text) - 1 or text[at - 1] == ".":
                return f'IPv4 field must have at least one digit (at "{text[at:]}")'
            if position == 3:
                return "IPv4 address too long"
            position, value, digits = position + 1, 0, 0
        else:
            return f'unexpected character (at "{text[at:]}")'
    return "IPv4 address too short" if position < 3 else f"unable to parse {whole}"


def _six(text: str) -> str:  # noqa: C901 - one line for each error
    rest, groups, gap = text, 0, False
    if rest.startswith("::"):
        gap, rest = True, rest[2:]
    while groups < _GROUPS and rest:
        size = 0
        while size < len(rest) and rest[size] in "0123456789abcdefABCDEF":
            size += 1
            if size > 4:
                return f'each group must have 4 or less digits (at "{rest}")'
        if size == 0:
            return f'each colon-separated field must have at least one digit (at "{rest}")'
        if size < len(rest) and rest[size] == ".":
            return _four(rest, text)
        groups, rest = groups + 1, rest[size:]
        if not rest:
            break
        if rest[0] != ":":
            return f'unexpected character, want colon (at "{rest}")'
        if len(rest) == 1:
            return f'colon must be followed by more characters (at "{rest}")'
        rest = rest[1:]
        if rest[0] == ":":
            if gap:
                return f'multiple :: in address (at "{rest}")'
            gap, rest = True, rest[1:]
    if rest:
        return f'trailing garbage after address (at "{rest}")'
    return "address string too short" if groups < _GROUPS and not gap else "unable to parse IP"
