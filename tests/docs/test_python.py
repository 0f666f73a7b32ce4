"""The reference of Python's side is what the code is, and the page on using it works as written."""

import os
from pathlib import Path

import pytest
from tests.docs import following, python_page

import rota


def test_the_reference_is_what_the_code_is() -> None:
    """A difference is mended by REWRITE_REFERENCE=1."""
    written = python_page.render()
    if os.environ.get("REWRITE_REFERENCE"):
        python_page.PAGE.write_text(written)
    assert python_page.PAGE.read_text() == written


def test_everything_public_has_its_place() -> None:
    assert python_page.shown() == set(rota._WHERE)  # type: ignore[attr-defined] # not for others


@pytest.mark.slow
def test_the_page_on_python_works_as_written(tmp_path: Path) -> None:
    followed = following.follow("use-from-python.md", tmp_path)
    assert len(followed) == 6
    for promised, printed in followed:
        assert printed == promised
