import stat
from pathlib import Path

import pytest

from rota.cli import options


@pytest.mark.parametrize(("files", "mode"), [((), 0o700), (("rota.db",), 0o700), (("notes.txt",), 0o755)])
def test_data_folders_are_closed_to_other_users(tmp_path: Path, files: tuple[str, ...], mode: int) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    for name in files:
        (folder / name).touch()
    assert stat.S_IMODE(options.made_folder(folder).stat().st_mode) == mode
