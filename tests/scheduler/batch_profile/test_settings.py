"""The file of the batch profile: a change takes effect, a file with an error does not."""

from pathlib import Path

import pytest

from rota.kit.errors import UserError
from rota.scheduler.batch_profile import settings
from rota.scheduler.batch_profile.settings import BatchSettings, LiveBatchSettings
from rota.testing.clocks import FakeClock

GOOD = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'
ERRORS = {
    "actions[0]": GOOD.replace("allocate", "alocate"),
    "tiers[0].plugins[0].name": GOOD.replace("gang", "gangs"),
    "tiers[0].plugins[0].arguments.x": GOOD + "    arguments: {x: 1}\n",
    "tiers[0].plugins[0].enableJobOrder": GOOD + "    enableJobOrder: maybe\n",
}


@pytest.mark.parametrize("path", ERRORS)
def test_a_broken_file_is_refused_with_its_path_and_the_old_settings_stay(tmp_path: Path, path: str) -> None:
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(GOOD)
    live = LiveBatchSettings(file, clock=FakeClock())
    applied: list[BatchSettings] = []
    refused: list[str] = []
    live.apply, live.refused = applied.append, refused.append
    before = live.settings
    file.write_text(ERRORS[path])
    live.reload()
    assert live.settings is before
    assert not applied
    assert path in refused[0]
    file.write_text(GOOD.replace("allocate", "allocate, backfill"))
    live.reload()
    assert applied[0].configuration.actions == ("allocate", "backfill")
    with pytest.raises(UserError, match=r"cannot read"):
        settings.load(tmp_path / "missing.conf")
