"""The reference of commands is what the commands are, and the page on running tasks works as written."""

import os
import re
from pathlib import Path

import pytest
from tests.docs import commands_page, following

from rota.cli import verbs


def test_the_reference_is_what_the_commands_are() -> None:
    """A difference is mended by REWRITE_REFERENCE=1."""
    written = commands_page.render()
    if os.environ.get("REWRITE_REFERENCE"):
        commands_page.PAGE.write_text(written)
    assert commands_page.PAGE.read_text() == written


def test_every_verb_has_its_place() -> None:
    headings = re.findall(r"^### rota (\S+)$", commands_page.PAGE.read_text(), re.MULTILINE)
    assert headings == list(verbs.VERBS)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_on_tasks_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    followed = following.follow("run-tasks.md", tmp_path, patience_s=280)
    assert len(followed) == 11
    for promised, printed in followed:
        assert re.sub(r" +\d+s$", " 2s", printed, flags=re.MULTILINE) == re.sub(
            r" +\d+s$", " 2s", promised, flags=re.MULTILINE
        )
