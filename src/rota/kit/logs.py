"""Structured logs on the standard library: a constant message plus key/value fields.

`log = logs.get(__name__)` in a module, then `log.info("watch resumed", revision=5)`. A process calls `configure` once;
without it the standard library's behaviour applies. The output is text (coloured on a terminal only) or JSON lines.
Secrets are removed from the output: see `redact`.
"""

import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, TextIO

Style = Literal["auto", "text", "json"]

_FIELDS: Final = "rota_fields"
#: Never mutated: `bound` puts a new mapping in its place.
_BOUND: ContextVar[Mapping[str, object]] = ContextVar("rota_log_fields", default=MappingProxyType({}))

_HIDDEN: Final = "***"
_SECRET_KEYS: Final = frozenset({"password", "passwd", "secret", "token", "authorization", "api_key", "private_key"})
# user:password@ in a URL. A password may itself hold "@" or ":", so the last "@" before the path ends it.
_URL_PASSWORD: Final = re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]*://[^\s/:@?#]*:)[^\s/?#]+(?=@)", re.IGNORECASE)
# password=... in a URL's query or in a libpq connection string, bare or quoted.
_PARAMETER: Final = re.compile(
    r"(?P<head>\b(?:password|passwd|secret|token)\s*=\s*)(?:'(?:[^'\\]|\\.|'')*'|[^\s&'\"#]+)", re.IGNORECASE
)


class Log:
    """A module's logger. Messages are constant, so that events can be counted; variable parts are fields."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, fields: Mapping[str, object]) -> None:
        self._logger = logger
        self._fields = fields

    def bind(self, **fields: object) -> "Log":
        """The same logger with these fields on every event."""
        return Log(self._logger, {**self._fields, **fields})

    def debug(self, message: str, /, **fields: object) -> None:
        """Log details for debugging."""
        self._emit(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        """Log a normal event."""
        self._emit(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        """Log a failure that was handled."""
        self._emit(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        """Log a failure that needs an operator's attention."""
        self._emit(logging.ERROR, message, fields)

    def exception(self, message: str, /, *, error: BaseException, **fields: object) -> None:
        """Log an error together with its traceback."""
        self._emit(logging.ERROR, message, fields, error)

    def _emit(self, level: int, message: str, fields: Mapping[str, object], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            merged = {**_BOUND.get(), **self._fields, **fields}
            self._logger.log(level, "%s", message, exc_info=error, extra={_FIELDS: merged}, stacklevel=3)


def get(name: str) -> Log:
    """The logger of a module: `logs.get(__name__)`."""
    return Log(logging.getLogger(name), {})


@contextlib.contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Put these fields on every event logged inside, by any module; tasks started inside inherit them."""
    token = _BOUND.set({**_BOUND.get(), **fields})
    try:
        yield
    finally:
        _BOUND.reset(token)


def redact(text: str) -> str:
    """The text with passwords in URLs and `password=`-like parameters replaced."""
    return _PARAMETER.sub(rf"\g<head>{_HIDDEN}", _URL_PASSWORD.sub(rf"\g<head>{_HIDDEN}", text))


def redact_url(url: str) -> str:
    """The URL with its password replaced, in the authority part or in the query."""
    return redact(url)


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        event: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for key, value in _fields_of(record).items():
            # An event's own keys win: a field must not overwrite its level or time.
            event[f"field_{key}" if key in event else key] = _plain(value)
        if record.exc_info:
            event["traceback"] = redact(self.formatException(record.exc_info))
        return json.dumps(event)


class TextFormatter(logging.Formatter):
    """A line for people: time, level, message, then key=value; a traceback follows on lines of its own."""

    _COLOURS: Final = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        level = self._paint(f"{record.levelname.lower():<7}", self._COLOURS.get(record.levelname, "0"))
        parts = [self._paint(_timestamp(record), "2"), level, redact(record.getMessage())]
        fields = {**_fields_of(record), "logger": record.name}
        parts += [f"{self._paint(f'{key}=', '36')}{_quoted(value)}" for key, value in fields.items()]
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + redact(self.formatException(record.exc_info))
        return line

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


class _Handler(logging.StreamHandler[TextIO]):
    """Rota's handler class, so that configuring again replaces it and leaves other handlers alone."""


def configure(*, level: str = "info", style: Style = "auto", stream: TextIO | None = None) -> None:
    """Send this process's logs, other libraries' included, to `stream` (standard error by default).

    `auto` means text, with colour if the stream is a terminal and NO_COLOR is not set.
    """
    target = sys.stderr if stream is None else stream
    handler = _Handler(target)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter(colour=wants_colour(target)))
    root = logging.getLogger()
    for other in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(level.upper())


def wants_colour(stream: TextIO) -> bool:
    """Whether to use colour: the stream is a terminal that supports it and NO_COLOR is not set
    (https://no-color.org).
    """
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    return _without_secrets(getattr(record, _FIELDS, {}))


def _without_secrets(fields: Mapping[str, object]) -> dict[str, object]:
    return {key: _HIDDEN if str(key).lower() in _SECRET_KEYS else value for key, value in fields.items()}


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(value: object) -> str:
    return redact(f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value))


def _plain(value: object) -> object:
    """The value as JSON can represent it."""
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {str(key): _plain(item) for key, item in _without_secrets(value).items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return _shown(value)


def _quoted(value: object) -> str:
    """The value on one line, quoted where its end would be ambiguous."""
    text = _shown(_without_secrets(value) if isinstance(value, Mapping) else value)
    if text and text.isprintable() and not any(letter in text for letter in ' "='):
        return text
    # Control characters and unusual line ends are written as escapes.
    return json.dumps(text, ensure_ascii=not text.isprintable())
