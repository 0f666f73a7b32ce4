"""The key file: its content, its mode, and how a running server gets a new key."""

import asyncio
import base64
import stat
from pathlib import Path

import pytest

from rota.apiserver.encryption import configuration, keyfile
from rota.apiserver.encryption.configuration import ConfigurationError, Rule
from rota.apiserver.encryption.envelope import Key
from rota.apiserver.encryption.keyfile import KeyFile
from rota.testing.clocks import FakeClock

SECRET = base64.b64encode(bytes(32)).decode()
GOOD = f"""
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources: [secrets, widgets.example.com]
    providers:
      - aesgcm:
          keys:
            - {{name: second, secret: "{SECRET}"}}
            - {{name: first, secret: "{SECRET}"}}
      - identity: {{}}
  - resources: [configmaps]
    providers:
      - identity: {{}}
      - aesgcm: {{keys: [{{name: other, secret: "{SECRET}"}}]}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "keys.yaml"
    keyfile.generate(made, now=0.0)
    return made


def test_upstreams_form_is_understood() -> None:
    rules = configuration.parse(GOOD, source="keys.yaml")
    assert [(rule.resources, [key.name for key in rule.keys], rule.plain) for rule in rules] == [
        (("secrets", "widgets.example.com"), ["second", "first"], False),
        (("configmaps",), ["other"], True),
    ]
    vault = configuration.vault(rules, source="keys.yaml")
    assert {prefix: ring.primary for prefix, ring in vault.rings.items()} == {
        "/core/secrets/": "second",
        "/example.com/widgets/": "second",
        "/core/configmaps/": None,
        "/~trust/": "second",
    }


def test_what_is_written_is_read_again() -> None:
    rules = configuration.parse(GOOD, source="keys.yaml")
    assert configuration.parse(configuration.render(rules), source="again") == rules


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("EncryptionConfiguration", "Secret", "it is a Secret"),
        ("aesgcm:\n", "aescbc:\n", "unknown field `aescbc`"),
        ("name: first", "name: second", "two keys"),
        ("name: first", 'name: "a:b"', "a key's name is"),
        (SECRET, "c2hvcnQ=", "has 5 bytes, not 32"),
        (SECRET, "%%%", "is not base64 of 32 bytes"),
        ("[configmaps]", "[secrets]", "secrets occurs more than once"),
        ("[configmaps]", '["*.*"]', "does not name one resource"),
        ("resources:\n  - resources", "resources: 7\nx:\n  - resources", "Expected `array`"),
        ("kind:", "kind: [", "while parsing"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(old: str, new: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=r"keys\.yaml is no key file") as caught:
        configuration.parse(GOOD.replace(old, new), source="keys.yaml")
    assert complaint in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_new_file_is_its_owners_alone_and_seals_secrets(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (rule,) = keyfile.read(path)
    assert rule.resources == ("secrets",)
    assert [key.name for key in rule.keys] == ["1970-01-01"]
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_there_is_left_alone(path: Path) -> None:
    before = path.read_text()
    keyfile.generate(path, now=1.0)
    assert path.read_text() == before


def test_every_new_file_has_another_key(tmp_path: Path) -> None:
    keyfile.generate(tmp_path / "a", now=0.0)
    keyfile.generate(tmp_path / "b", now=0.0)
    assert (tmp_path / "a").read_text() != (tmp_path / "b").read_text()


def test_a_file_that_others_may_read_is_refused(path: Path) -> None:
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        keyfile.read(path)


def test_a_new_key_writes_and_the_old_ones_go_on_reading(path: Path) -> None:
    assert keyfile.add_key(path, now=0.0) == "1970-01-01.2"
    (rule,) = keyfile.read(path)
    assert [key.name for key in rule.keys] == ["1970-01-01.2", "1970-01-01"]
    keyfile.forget_keys(path, frozenset({"1970-01-01"}))
    (rule,) = keyfile.read(path)
    assert [key.name for key in rule.keys] == ["1970-01-01.2"]


def test_a_changed_file_is_taken_in_while_running(path: Path) -> None:
    keys = KeyFile(path, FakeClock())
    assert not keys.look()
    name = keyfile.add_key(path, now=0.0)
    assert keys.look()
    assert keys.vault.rings["/core/secrets/"].primary == name
    assert not keys.look()


async def test_a_running_server_finds_a_new_key_by_itself(path: Path) -> None:
    clock = FakeClock()
    keys = KeyFile(path, clock)
    following = asyncio.create_task(keys.run())
    name = keyfile.add_key(path, now=0.0)
    await clock.advance(10.0)
    assert keys.vault.rings["/core/secrets/"].primary == name
    following.cancel()
    await asyncio.wait([following])


def test_a_file_that_went_wrong_leaves_the_known_keys_in_use(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = KeyFile(path, FakeClock())
    before = keys.vault
    path.write_text("what?")
    assert not keys.look()
    path.unlink()
    assert not keys.look()
    assert keys.vault is before
    assert caplog.messages == ["cannot read the key file, keeping the known encryption keys"] * 2


def test_resources_are_those_of_the_start(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = KeyFile(path, FakeClock())
    before = keys.vault
    (rule,) = keyfile.read(path)
    path.write_text(configuration.render((Rule(resources=("configmaps",), keys=rule.keys),)))
    assert not keys.look()
    assert keys.vault is before
    assert caplog.messages == ["cannot read the key file, keeping the known encryption keys"]
    fresh = (Key("fresh", bytes(32)), *rule.keys)
    path.write_text(configuration.render((Rule(resources=("secrets", "configmaps"), keys=fresh),)))
    assert keys.look()
    assert keys.vault.prefixes == ("/core/secrets/", "/~trust/")
    assert keys.vault.rings["/core/secrets/"].primary == "fresh"
    assert "restart to encrypt more resources" in caplog.text


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read the key file"):
        KeyFile(tmp_path / "none", FakeClock())
