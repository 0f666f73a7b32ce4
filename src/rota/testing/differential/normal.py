"""The normal form of an answer: what depends on the run, the clock or chance is replaced by a word.

Whether such a value is there at all still counts; only which one it is does not.
"""

import re
from typing import Any, Final

_UID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME: Final = re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?(Z|[+-]\d\d:?\d\d)( UTC)?)?")
_ADDRESS: Final = re.compile(r"\b10\.96\.\d{1,3}\.\d{1,3}\b")
_VERSION: Final = re.compile(r"(resource version:? ?\"?|resourceVersion:? ?\"?)\d+")
#: What a parser says of text that it cannot read, and what Go calls the types of its own fields: nobody acts on it.
_PARSER: Final = re.compile(r"(json parse error: |error converting YAML to JSON: )(.|\n)*|( of type )\S+")
#: A patch that does not fit is quoted whole, as Go prints it.
_PATCH: Final = re.compile(r"((?<=patch: )Invalid value: |^Invalid value: )\"?(map\[|\{|\[)(.|\n)*")
_PORTS: Final = range(30_000, 32_768)
#: Go shows its own form of an object, and a comparison of two after a line break.
_OBJECT: Final = re.compile(r"Invalid value: [\[{][^\n]*[\]}]: ")
_COMPARED: Final = re.compile(r"\n[ @](.|\n)*")
#: Structs within structs have names in Go, which are no part of any path in JSON.
_EMBEDDED: Final = re.compile(r"\b(ProbeHandler|LifecycleHandler|PersistentVolumeSource|VolumeSource|Rule)\.(?=[a-z])")
_LIST: Final = re.compile(r"converting \(v1\.List\) to \([^)]*\): unknown conversion")
_NO_PATCH: Final = re.compile(
    r"^(error decoding patch: )?(a JSON patch is|json: cannot unmarshal object into Go value).*"
)
_AGE: Final = re.compile(r"\d+s")
_DAYS: Final = re.compile(r"\d+y(\d+d)?|\d+d")
_SCHEME: Final = re.compile(r' in scheme "[^"]*"')
_RECORD: Final = re.compile(r"in record \(\d+\)")
_WORDS: Final = (
    (_SCHEME, ""),
    (_OBJECT, "Invalid value: {...}: "),
    (_COMPARED, ""),
    (_EMBEDDED, ""),
    (_LIST, 'no kind "List" is registered for version "v1"'),
    (_NO_PATCH, "not a JSON patch"),
    (_RECORD, "in record (VERSION)"),
    (_UID, "UID"),
    (_TIME, "TIME"),
    (_ADDRESS, "ADDRESS"),
    (_VERSION, r"\1VERSION"),
    (_PARSER, r"\1\3..."),
    (_PATCH, r"\1..."),
)


def text(value: str, *, namespace: str) -> str:
    """A text without what differs from run to run."""
    value = value.replace(namespace, "$ns")
    for pattern, word in _WORDS:
        value = pattern.sub(word, value)
    return value


def form(value: Any, *, namespace: str, key: str = "") -> Any:
    """The normal form of a JSON value."""
    if isinstance(value, dict):
        named = _named(value)
        if key == "columnDefinitions":
            # Descriptions of columns are prose, and ours is our own.
            named = {name: part for name, part in named.items() if name != "description"}
        return {
            text(name, namespace=namespace): form(part, namespace=namespace, key=name) for name, part in named.items()
        }
    if isinstance(value, list):
        return [form(part, namespace=namespace, key=key) for part in value]
    if isinstance(value, str):
        if value and key in {"resourceVersion", "continue"} and not value.startswith("$"):
            return key.upper()
        if key == "cells" and _AGE.fullmatch(value):
            return "AGE"
        return text(value, namespace=namespace)
    if key == "nodePort" and value in _PORTS:
        return "PORT"
    return value


def without_ages(value: Any, *, key: str = "") -> Any:
    """A normal form without the ages of fixed times, which grow from one day to the next."""
    if isinstance(value, dict):
        return {name: without_ages(part, key=name) for name, part in value.items()}
    if isinstance(value, list):
        return [without_ages(part, key=key) for part in value]
    return "AGE" if key == "cells" and isinstance(value, str) and _DAYS.fullmatch(value) else value


def _named(value: dict[str, Any]) -> dict[str, Any]:
    """An object's metadata without the end of a name that the server chose."""
    stem = value.get("generateName")
    name = value.get("name")
    if isinstance(stem, str) and isinstance(name, str) and name.startswith(stem) and name != stem:
        return {**value, "name": f"{stem}*****"}
    return value


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two values in normal form differ, one line each: what we say and what they say."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for name in sorted({*ours, *theirs}, key=str):
            found += differences(ours.get(name, _ABSENT), theirs.get(name, _ABSENT), f"{path}.{name}")
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            line
            for number, pair in enumerate(zip(ours, theirs, strict=True))
            for line in differences(*pair, f"{path}[{number}]")
        ]
    # 1 and 1.0 are one number in JSON, 1 and true are not
    if ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool):
        return []
    return [f"{path or '.'}: ours {ours!r}, theirs {theirs!r}"]


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT: Final = _Absent()
