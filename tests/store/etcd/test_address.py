from pathlib import Path

import pytest

from rota.store import errors
from rota.store.backends.etcd import address
from rota.store.backends.etcd.address import Address, Tls


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("etcd://db", Address(endpoints=("db:2379",))),
        ("etcd://a:1,b:2", Address(endpoints=("a:1", "b:2"))),
        ("etcd://[::1]:2379/", Address(endpoints=("[::1]:2379",))),
        ("etcd://db/some/where", Address(endpoints=("db:2379",), prefix="/some/where/")),
        ("etcd://db/with%20space/", Address(endpoints=("db:2379",), prefix="/with space/")),
        ("etcd://me:p%40ss@db", Address(endpoints=("db:2379",), user="me", password="p@ss")),
        ("etcd://me:p@ss:word@db", Address(endpoints=("db:2379",), user="me", password="p@ss:word")),
        ("etcds://db", Address(endpoints=("db:2379",), tls=Tls())),
    ],
)
def test_a_url_says_where_the_store_is(url: str, expected: Address) -> None:
    assert address.parse(url) == expected


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("not a certificate")
    with pytest.raises(errors.BadAddress, match="PEM"):
        address.parse(f"etcds://db?ca={tmp_path}/ca")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("etcd://", "is not a host"),
        ("etcd://a,,b", "is not a host"),
        ("etcd://a b", "is not a host"),
        ("etcd://db:port", "port"),
        ("etcd://db:99999", "[Pp]ort"),
        ("etcd://db#part", "fragment"),
        ("etcd://db?ca=x", "etcds"),
        ("etcds://db?color=red", "no option color"),
        ("etcds://db?ca", "options cannot be read"),
        ("etcds://db?cert=x", "go together"),
        ("etcds://db?ca=/no/such/file", "cannot read '/no/such/file'"),
    ],
)
def test_a_url_that_cannot_be_right_is_refused_with_the_reason(url: str, words: str) -> None:
    with pytest.raises(errors.BadAddress, match=words):
        address.parse(url)


def test_no_message_shows_the_password() -> None:
    with pytest.raises(errors.BadAddress) as caught:
        address.parse("etcd://me:secret@db:99999")
    assert "secret" not in str(caught.value)
    assert "secret" not in str(address.parse("etcd://me:secret@db"))
