import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from rota.pki import keys, signing_requests
from rota.pki.certificates import Names, Subject
from rota.pki.signing_requests import NotARequest

NODE = Subject(common_name="system:node:n1", organizations=("system:nodes",))
PEM = signing_requests.make(keys.generate(), NODE)


def test_a_signing_request_names_subject_and_usage() -> None:
    key = keys.generate()
    names = Names.of(["n1", "10.0.0.1"])
    request = signing_requests.read(signing_requests.make(key, NODE, names=names))
    assert request.subject == NODE
    assert request.names == names
    assert request.public_key == key.public_key()
    assert not request.has_other_names


def test_mail_addresses_and_uris_do_not_go_unnoticed() -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(NODE.to_name())
    alternatives = x509.SubjectAlternativeName([x509.DNSName("n1"), x509.UniformResourceIdentifier("spiffe://n1")])
    signed = builder.add_extension(alternatives, critical=False).sign(keys.generate(), hashes.SHA256())
    request = signing_requests.read(signed.public_bytes(serialization.Encoding.PEM))
    assert request.has_other_names
    assert request.names.dns == ("n1",)


def test_a_request_must_be_signed_with_its_own_key() -> None:
    der = bytearray(x509.load_pem_x509_csr(PEM).public_bytes(serialization.Encoding.DER))
    # a letter of the name: the signature no longer covers what is asked for
    at = bytes(der).index(b"system:node:n1")
    der[at + 13] = ord("2")
    forged = x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(NotARequest, match="not signed"):
        signing_requests.read(forged)


@pytest.mark.slow  # making keys of this size takes a while
def test_short_keys_are_refused() -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.raises(NotARequest, match="2048"):
        signing_requests.read(signing_requests.make(weak, NODE))


def test_unusual_keys_are_refused() -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(NODE.to_name())
    signed = builder.sign(ed25519.Ed25519PrivateKey.generate(), None)
    with pytest.raises(NotARequest, match="ECDSA"):
        signing_requests.read(signed.public_bytes(serialization.Encoding.PEM))


@given(st.binary(max_size=200))
def test_garbage_is_no_request(garbage: bytes) -> None:
    with pytest.raises(NotARequest):
        signing_requests.read(garbage)


@given(at=st.integers(0, len(PEM) - 1), byte=st.integers(0, 255))
def test_a_request_with_a_wrong_byte_is_refused_or_says_the_same(at: int, byte: int) -> None:
    broken = PEM[:at] + bytes([byte]) + PEM[at + 1 :]
    try:
        request = signing_requests.read(broken)
    except NotARequest:
        return
    assert request.subject == NODE
