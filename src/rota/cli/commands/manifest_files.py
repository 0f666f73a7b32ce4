"""Reads manifests from files, folders and standard input: YAML or JSON, one or many documents each.

Each object keeps its location, so that later errors can name it.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from rota.client.verbs import Object
from rota.kit import errors

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(NamedTuple):
    """An object, or the error in its place."""

    #: `jobs.yaml, document 2 (Pod web)`
    where: str
    obj: Object
    fault: str = ""


def read(sources: Iterable[str]) -> list[Document]:
    """All documents of the sources, in order; `UserError` for an unreadable source."""
    return [document for source in sources for name, text in _texts(source) for document in parse(text, name)]


def parse(text: str, name: str) -> list[Document]:
    """The objects of a text; Lists are split."""
    found: list[Document] = []
    try:
        for number, content in enumerate(yaml.load_all(text, Loader=_loader), start=1):
            if content is not None:
                found += _objects(content, f"{name}, document {number}")
    except (yaml.YAMLError, ValueError) as error:
        found.append(Document(name, {}, f"is neither YAML nor JSON: {_told(error)}"))
    return found


def _told(error: Exception) -> str:
    """The error, with its line in the text."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        context = f" {error.context}" if error.context else ""
        if error.context_mark is not None and error.context_mark.line != mark.line:
            context += f" that begins in line {error.context_mark.line + 1}"
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}{context}"
    return " ".join(str(error).split())


def _objects(content: Any, where: str) -> Iterator[Document]:
    if not isinstance(content, dict):
        yield Document(where, {}, "is no object; an object has apiVersion, kind and metadata")
    elif isinstance(content.get("items"), list) and str(content.get("kind", "")).endswith("List"):
        for number, item in enumerate(content["items"], start=1):
            yield from _objects(item, f"{where}, item {number}")
    else:
        yield _checked(content, where)


def _checked(content: Object, where: str) -> Document:
    missing = [name for name in ("apiVersion", "kind") if not isinstance(content.get(name), str) or not content[name]]
    if missing:
        return Document(where, content, f"has no {' and no '.join(missing)}")
    metadata = content.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        return Document(f"{where} ({content['kind']})", content, "has neither metadata.name nor metadata.generateName")
    name = metadata.get("name") or f"{metadata['generateName']}..."
    return Document(f"{where} ({content['kind']} {name})", content)


def _texts(source: str) -> Iterator[tuple[str, str]]:
    if source == "-":
        yield "standard input", sys.stdin.read()
        return
    path = Path(source)
    try:
        if not path.is_dir():
            yield source, path.read_text()
            return
        files = sorted(one for one in path.rglob("*") if one.suffix in _SUFFIXES and one.is_file())
        if not files:
            raise errors.UserError(f"{path} holds no .yaml, .yml or .json file")
        for one in files:
            yield str(one), one.read_text()
    except OSError as error:
        raise errors.UserError(f"cannot read {error.filename or path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise errors.UserError(f"{path} is not text") from None
