"""The format of log lines, and what is never in them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


log = logs.get("rota.test")


def test_text_in_a_pipe_is_one_plain_line_with_key_values() -> None:
    out = io.StringIO()
    logs.configure(stream=out)
    log.info("watch resumed", revision=5, reason="lost connection", empty="")
    line = out.getvalue()
    assert line.endswith('Z info    watch resumed revision=5 reason="lost connection" empty="" logger=rota.test\n')
    assert "\x1b" not in line


def test_text_on_a_terminal_is_coloured_unless_the_user_said_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    logs.configure(stream=out)
    log.info("ready")
    assert "\x1b[32m" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    logs.configure(stream=out)
    log.info("ready")
    assert "\x1b" not in out.getvalue()


def test_json_lines_carry_every_field_and_the_traceback() -> None:
    out = io.StringIO()
    logs.configure(style="json", stream=out)
    try:
        raise LookupError("no such node")
    except LookupError as error:
        log.exception("task crashed", error=error, task="sync", delays=[1, 2], cause=error)
    event = json.loads(out.getvalue())
    assert event.pop("time").endswith("Z")
    assert "in test_json_lines" in event.pop("traceback")
    assert event == {
        "level": "error",
        "logger": "rota.test",
        "message": "task crashed",
        "task": "sync",
        "delays": [1, 2],
        "cause": "LookupError: no such node",
    }


def test_a_field_cannot_pose_as_the_level_of_an_event() -> None:
    out = io.StringIO()
    logs.configure(style="json", stream=out)
    log.info("asked", level="critical")
    event = json.loads(out.getvalue())
    assert (event["level"], event["field_level"]) == ("info", "critical")


@given(st.text())
def test_a_value_never_breaks_out_of_its_line(value: str) -> None:
    record = logging.LogRecord("rota.test", logging.INFO, "", 0, "asked", None, None)
    setattr(record, logs._FIELDS, {"name": value})
    assert len(logs.TextFormatter(colour=False).format(record).splitlines()) == 1
    assert json.loads(logs.JsonFormatter().format(record))["name"] == logs.redact(value)


def test_bound_fields_go_with_the_logger_and_with_the_context() -> None:
    out = io.StringIO()
    logs.configure(style="json", stream=out)
    mine = log.bind(node="n1")
    with logs.bound(request="r1"), logs.bound(user="u1"):
        mine.info("inside", node="n2")
        log.info("inside")
    mine.info("outside")
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    picked = [{key: event[key] for key in ("node", "request", "user") if key in event} for event in events]
    assert picked == [
        {"node": "n2", "request": "r1", "user": "u1"},
        {"request": "r1", "user": "u1"},
        {"node": "n1"},
    ]


def test_what_is_below_the_level_is_not_logged_and_configuring_again_replaces() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure(level="warning", stream=first)
    log.info("no")
    log.warning("yes")
    logs.configure(level="debug", stream=second)
    log.debug("now")
    assert (len(first.getvalue().splitlines()), len(second.getvalue().splitlines())) == (1, 1)


def test_other_libraries_logs_come_out_in_the_same_form() -> None:
    out = io.StringIO()
    logs.configure(style="json", stream=out)
    logging.getLogger("asyncio").warning("slow callback of %s s", 3)
    assert json.loads(out.getvalue())["message"] == "slow callback of 3 s"


def test_the_record_names_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("here")
    assert caplog.records[0].filename == "test_logs.py"
    assert caplog.records[0].funcName == "test_the_record_names_the_caller"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://rota:s3cret@db:5432/rota", "postgresql://rota:***@db:5432/rota"),
        ("postgresql://rota:p:a@s@db/rota", "postgresql://rota:***@db/rota"),
        ("postgresql://:s3cret@db/rota", "postgresql://:***@db/rota"),
        ("postgresql://db/rota?user=a&password=s3cret&sslmode=require", None),
        ("host=db password='it''s s3cret' dbname=rota", None),
        ("etcd://a:2379,b:2379", "etcd://a:2379,b:2379"),
        ("sqlite:////var/lib/rota/x@y.db", "sqlite:////var/lib/rota/x@y.db"),
        ("memory://", "memory://"),
    ],
)
def test_passwords_are_taken_out_of_urls(url: str, shown: str | None) -> None:
    redacted = logs.redact_url(url)
    assert "s3cret" not in redacted
    assert "p:a" not in redacted
    if shown is not None:
        assert redacted == shown


@given(st.text(st.characters(exclude_characters="/?# \t\n@", exclude_categories=("Z", "C")), min_size=6))
def test_no_password_survives_in_a_url(password: str) -> None:
    secret = f"{password}~secret~{password}"
    assert "~secret~" not in logs.redact_url(f"postgresql://rota:{secret}@127.0.0.1:5432/rota")


@pytest.mark.parametrize("style", ["text", "json"])
def test_secrets_do_not_reach_the_log(style: logs.Style) -> None:
    out = io.StringIO()
    logs.configure(style=style, stream=out)
    url = "postgresql://rota:s3cret@db/rota"
    log.info("connecting", url=url, token="s3cret", nested=[url], spec={"password": "s3cret"}, error=ValueError(url))
    try:
        raise ValueError(f"cannot reach {url}")
    except ValueError as error:
        log.exception("failed", error=error)
    assert "s3cret" not in out.getvalue()
    assert "db/rota" in out.getvalue()
