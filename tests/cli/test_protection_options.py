"""What `rota up` says to keys, policies and limits that cannot be used: one line, before anything is served."""

import subprocess
import sys
from pathlib import Path

import pytest

from rota.apiserver.encryption import keyfile
from rota.cli import protection_options
from rota.testing.masters import Master

ROTA = str(Path(sys.executable).with_name("rota"))


def up(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROTA, "up", "--data", str(folder), "--port", "0", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--audit-policy", "policy.yaml"], "--audit-policy goes with --audit-log"),
        (["--audit-log", "audit.log", "--audit-policy", "none.yaml"], "cannot read the audit policy none.yaml"),
        (["--audit-log", "none/audit.log"], "cannot write the audit log none/audit.log"),
        (["--encryption-keys", "open.yaml"], "others than its owner may use the key file open.yaml; chmod 600"),
        (["--max-requests", "0"], "0 is not in the range x>=1"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    keyfile.generate(tmp_path / "open.yaml", now=0.0)
    (tmp_path / "open.yaml").chmod(0o644)
    done = up(tmp_path / "data", *options)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Rota is up" not in done.stdout


@pytest.mark.slow
def test_a_cluster_whose_keys_are_gone_does_not_start_and_gets_no_new_ones(tmp_path: Path) -> None:
    url, keys = f"sqlite:///{tmp_path}/store.db", tmp_path / "keys.yaml"
    with Master(tmp_path / "master", store_url=url, keys=keys):
        pass
    keys.unlink()
    done = up(tmp_path / "other", "--store", url, "--encryption-keys", str(keys))
    assert done.returncode == 2
    assert "put back the file that its first server made" in done.stderr
    assert not keys.exists()


def test_a_rate_brings_a_burst_of_two_seconds_along() -> None:
    limits = protection_options.limits(max_requests=7, request_timeout=3.0, requests_per_second=0.2)
    assert (limits.seats, limits.request_s, limits.rate_per_user, limits.burst_per_user) == (7, 3.0, 0.2, 1)
    limits = protection_options.limits(max_requests=7, request_timeout=3.0, requests_per_second=50.0)
    assert limits.burst_per_user == 100
