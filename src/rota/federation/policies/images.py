"""Images in parts: registry, repository, tag or digest."""

import re
from dataclasses import dataclass, replace
from typing import Final

_LONGEST_NAME: Final = 255
_COMPONENT: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(
    rf"((?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::({_TAG}))?(?:@({_DIGEST}))?", re.ASCII
)
_ONLY_TAG: Final = re.compile(_TAG, re.ASCII)
_ONLY_DIGEST: Final = re.compile(_DIGEST, re.ASCII)
_HEX_DIGITS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}


class NoImage(ValueError):
    """The text does not name an image."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image reference; a digest counts only without a tag."""

    registry: str = ""
    repository: str = ""
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        name = f"{self.registry}/{self.repository}" if self.registry else self.repository
        if self.tag:
            return f"{name}:{self.tag}"
        return f"{name}@{self.digest}" if self.digest else name

    @property
    def version(self) -> str:
        """The tag, or the digest."""
        return self.tag or self.digest

    def with_version(self, text: str) -> "Image":
        """With another tag or digest; what is neither changes nothing."""
        if _ONLY_TAG.fullmatch(text):
            return replace(self, tag=text, digest="")
        return replace(self, tag="", digest=text) if _ONLY_DIGEST.fullmatch(text) else self

    def without_version(self) -> "Image":
        """Without its tag, or without its digest."""
        return replace(self, tag="") if self.tag else replace(self, digest="")


def parse(text: str) -> Image:
    """An image reference in its parts."""
    found = _REFERENCE.fullmatch(text)
    if found is None or len(found[1]) > _LONGEST_NAME:
        raise NoImage(f"{text!r} is not an image; write it like registry.example/team/app:v1")
    name, tag, digest = found[1], found[2] or "", found[3] or ""
    if digest:
        algorithm, _, digits = digest.partition(":")
        if _HEX_DIGITS.get(algorithm) != len(digits) or digits != digits.lower():
            raise NoImage(f"{text!r} has a digest of an unknown form; use sha256 with 64 hexadecimal digits")
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return Image(first, rest, tag, "" if tag else digest)
    return Image("", name, tag, "" if tag else digest)
