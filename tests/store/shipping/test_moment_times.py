"""How `rota restore --at` reads a time."""

import pytest

from rota import backups
from rota.api import times
from rota.kit import errors


def test_a_time_without_a_fraction_includes_its_second() -> None:
    begin = times.parse("2026-05-01T12:30:00Z")
    assert begin + 0.9 < backups.moment_time("2026-05-01T12:30:00Z") < begin + 1
    assert begin + 0.9 < backups.moment_time("2026-05-01T14:30:00+02:00") < begin + 1


def test_a_time_with_a_fraction_is_exact() -> None:
    assert backups.moment_time("2026-05-01T12:30:00.250000Z") == times.parse("2026-05-01T12:30:00.250000Z")


def test_a_text_that_is_no_time_is_refused_with_the_form_to_write() -> None:
    with pytest.raises(errors.UserError, match="write it as 2026-05-01T12:30:00Z"):
        backups.moment_time("yesterday")
