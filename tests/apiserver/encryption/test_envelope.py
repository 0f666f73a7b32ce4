"""Encrypted values: only the right key at the right storage key decrypts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.apiserver.encryption.envelope import MARK, Key, KeyMissing, Keyring, Unopenable, Vault, sealed_with

OLD = Key("old", bytes(range(32)))
NEW = Key("new", bytes(range(1, 33)))
PLACE = "/core/secrets/default/password"


def ring(*keys: Key, plain: bool = False) -> Keyring:
    return Keyring(keys, source="keys.yaml", plain=plain)


@given(place=st.text(), value=st.binary())
def test_what_is_sealed_opens_again_in_its_place(place: str, value: bytes) -> None:
    keys = ring(NEW)
    sealed = keys.seal(place, value)
    assert sealed_with(sealed) == "new"
    assert keys.open(place, sealed) == value
    assert ring(OLD, NEW).open(place, sealed) == value


@given(value=st.binary(min_size=8))
def test_an_encrypted_value_shows_nothing_of_its_content_and_is_never_the_same_twice(value: bytes) -> None:
    keys = ring(NEW)
    first, second = keys.seal(PLACE, value), keys.seal(PLACE, value)
    assert value not in first[-len(value) - 16 :]
    assert first != second
    assert len(first) == len(second)


def test_no_nonce_occurs_twice_under_one_key() -> None:
    header = len(MARK) + len("new:")
    rings = [ring(NEW) for _ in range(50)]
    heads = [keys.seal(PLACE, b"")[header : header + 28] for keys in rings for _ in range(50)]
    assert len(set(heads)) == len(heads)


@given(st.binary().filter(lambda value: not value.startswith(MARK)))
def test_a_plain_value_is_returned_as_it_is(value: bytes) -> None:
    assert ring(NEW).open(PLACE, value) is value


def test_a_ring_that_only_reads_leaves_values_plain() -> None:
    keys = ring(NEW, plain=True)
    assert keys.seal(PLACE, b"{}") == b"{}"
    assert keys.open(PLACE, ring(NEW).seal(PLACE, b"{}")) == b"{}"


def test_a_value_that_was_moved_does_not_open() -> None:
    keys = ring(NEW)
    with pytest.raises(Unopenable, match="moved"):
        keys.open("/core/secrets/default/other", keys.seal(PLACE, b"{}"))


@given(st.data())
def test_a_value_with_one_changed_bit_does_not_open(data: st.DataObject) -> None:
    keys = ring(NEW)
    sealed = bytearray(keys.seal(PLACE, b"secret"))
    at = data.draw(st.integers(len(MARK), len(sealed) - 1))
    sealed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((Unopenable, KeyMissing)):
        keys.open(PLACE, bytes(sealed))


@given(st.integers(0, 60))
def test_a_value_that_was_cut_does_not_open(length: int) -> None:
    keys = ring(NEW)
    sealed = keys.seal(PLACE, b"secret")
    cut = sealed[: max(length, len(MARK))]
    with pytest.raises((Unopenable, KeyMissing)):
        keys.open(PLACE, cut)


def test_a_missing_key_is_named_with_the_remedy() -> None:
    sealed = ring(OLD).seal(PLACE, b"{}")
    with pytest.raises(KeyMissing) as caught:
        ring(NEW).open(PLACE, sealed)
    assert str(caught.value) == (
        f"{PLACE} is encrypted with the key 'old', which is not in keys.yaml; put that key back into the file"
    )


def test_another_key_of_the_same_name_does_not_open() -> None:
    sealed = ring(OLD).seal(PLACE, b"{}")
    with pytest.raises(Unopenable):
        ring(Key("old", NEW.secret)).open(PLACE, sealed)


def test_keys_do_not_show_their_secret() -> None:
    assert repr(NEW.secret)[2:10] not in repr(NEW)


def test_a_vault_knows_which_prefixes_are_encrypted() -> None:
    vault = Vault({"/core/secrets/": ring(NEW)})
    assert vault.ring(PLACE) is vault.rings["/core/secrets/"]
    assert vault.ring("/core/secretsX/default/a") is None
    assert vault.ring("/core/configmaps/default/a") is None
    for prefix in ("", "/core/", "/core/secrets/", "/core/secrets/default/"):
        assert vault.concerns(prefix)
    for prefix in ("/core/pods/", "/apps/", "/core/secretsX/"):
        assert not vault.concerns(prefix)
