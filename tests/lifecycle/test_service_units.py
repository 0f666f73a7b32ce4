"""Command lines and systemd units of members."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lifecycle.specs import parsed

from rota.lifecycle import service_units

ANALYZE = shutil.which("systemd-analyze")


def test_the_password_of_the_store_is_in_no_command_line_and_no_unit() -> None:
    spec = parsed(2, 1, store="postgresql://rota:secret@db/rota", manager="systemd")
    service = service_units.service(spec, spec.masters[0])
    assert "secret" not in service.text
    assert not any("secret" in word for word in service.command)
    assert service_units.environment(spec, spec.masters[0]) == {"ROTA_STORE": "postgresql://rota:secret@db/rota"}
    assert service_units.environment(spec, spec.workers[0]) == {}


def test_a_change_that_needs_a_restart_changes_the_digest() -> None:
    spec = parsed(2, 1)
    first = service_units.service(spec, spec.masters[0]).digest
    other = replace(spec, store="etcd://10.0.0.8:2379")
    assert service_units.service(other, spec.masters[0]).digest != first
    assert service_units.service(spec, replace(spec.masters[0], port=7443)).digest != first
    assert service_units.service(parsed(2, 3), spec.masters[0]).digest == first


def test_systemd_stops_a_worker_without_its_tasks_and_a_master_with_its_children() -> None:
    spec = parsed(1, 1, manager="systemd")
    master, worker = (service_units.service(spec, one).text.splitlines() for one in spec.members)
    assert "KillMode=process" in worker
    assert "EnvironmentFile=-/var/lib/rota-lab/w1/join.env" in worker
    assert "KillMode=mixed" in master
    assert not any("ROTA_JOIN" in line for line in master)


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is missing: apt-get install systemd")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    program = shutil.which("true")
    worker = {"name": "w1", "address": "10.0.1.1", "options": ["--labels=note=50% of $HOME; 'a b'"]}
    spec = parsed(1, manager="systemd", program=program, workers=[worker], folder=str(tmp_path / "lab"))
    for member in spec.members:
        service = service_units.service(spec, member)
        (tmp_path / "lab" / member.name).mkdir(parents=True)
        path = tmp_path / service.unit
        path.write_text(service.text)
        done = subprocess.run([str(ANALYZE), "verify", path], capture_output=True, text=True, check=False)
        complaints = [line for line in done.stderr.splitlines() if service.unit in line]
        assert complaints == []
    text = service_units.service(spec, spec.workers[0]).text
    assert """"--labels=note=50%% of $$HOME; 'a b'" $ROTA_JOIN""" in text
