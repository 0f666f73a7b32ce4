"""What admission of new pods depends on is covered by their fingerprint."""

from typing import ClassVar

import pytest

from rota.api.identifiers import GroupResource
from rota.apiserver.admission import chain
from rota.apiserver.interfaces import Attributes, Object
from rota.testing.api import ApiServer


class ReadsConfigMaps:
    """A plugin whose verdict depends on a kind that no fingerprint covers."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({GroupResource("", "configmaps")})

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit everything."""


async def test_a_server_does_not_start_with_a_plugin_that_reads_more_than_fingerprints_cover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = chain.validating
    monkeypatch.setattr(chain, "validating", lambda *given: (*usual(*given), ReadsConfigMaps()))
    with pytest.raises(ValueError, match="ReadsConfigMaps reads configmaps, which no admission fingerprint covers"):
        async with ApiServer():
            pass
