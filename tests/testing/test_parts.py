"""What a run says about the tests that a missing part leaves out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rota.testing import parts

ETCD_IS_MISSING = next(part for part in parts.PARTS if part.name == "etcd").absence


def test_all_requires_every_part() -> None:
    assert parts.required("all") == {part.name for part in parts.PARTS}


def test_a_list_requires_its_parts_and_nothing_requires_none() -> None:
    assert parts.required("etcd, postgres") == {"etcd", "postgres"}
    assert parts.required("") == frozenset()


def test_a_part_that_does_not_exist_cannot_be_required() -> None:
    with pytest.raises(parts.UnknownPartError, match="names etdc; it takes `all`, or some of browser, etcd, helm, k"):
        parts.required("etdc")


@pytest.mark.slow
class TestARunWithoutEtcd:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "test_some.py").write_text(
            "import pytest\n"
            "def test_plain(): pass\n"
            "@pytest.mark.etcd\n"
            "def test_marked(): raise AssertionError('must not run')\n"
            "def test_by_fixture(etcd_url): raise AssertionError('must not run')\n"
        )
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nasyncio_mode = auto\n")
        return tmp_path

    def run(self, folder: Path, *arguments: str, require: str = "") -> tuple[int, list[str]]:
        command = [sys.executable, "-m", "pytest", "-p", "rota.testing.plugin", "-W", "ignore", *arguments, str(folder)]
        environment = {**os.environ, "PATH": str(folder), "ROTA_TEST_REQUIRE": require}
        environment.pop("PYTEST_XDIST_WORKER", None)
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).splitlines()

    @pytest.mark.parametrize("workers", ["-n0", "-n1"])
    def test_skips_its_tests_and_says_so_in_the_last_line(self, folder: Path, workers: str) -> None:
        code, lines = self.run(folder, workers)
        assert code == 0
        assert lines[-1] == f"2 tests left out: {ETCD_IS_MISSING}"
        assert any("1 passed, 2 skipped" in line for line in lines)

    @pytest.mark.parametrize("require", ["all", "etcd"])
    def test_fails_if_etcd_is_required_and_says_so_in_the_last_line(self, folder: Path, require: str) -> None:
        code, lines = self.run(folder, "-n0", require=require)
        assert code == 1
        assert lines[-1] == f"2 tests failed: {ETCD_IS_MISSING}"

    def test_skips_if_another_part_is_required(self, folder: Path) -> None:
        code, lines = self.run(folder, "-n0", require="postgres")
        assert (code, lines[-1]) == (0, f"2 tests left out: {ETCD_IS_MISSING}")

    def test_says_nothing_if_no_test_needed_it(self, folder: Path) -> None:
        code, lines = self.run(folder, "-n0", "-m", "not etcd", require="all")
        assert code == 0
        assert "1 passed, 2 deselected" in lines[-1]

    def test_refuses_a_misspelt_requirement(self, folder: Path) -> None:
        code, lines = self.run(folder, "-n0", require="etdc")
        assert code == 4
        assert "ROTA_TEST_REQUIRE names etdc" in "\n".join(lines)
