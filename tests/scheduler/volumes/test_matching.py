"""The index of volumes gives what a plain walk over all of them gives."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api import nodeselectors
from rota.scheduler.volumes import matching, volume_claims
from rota.scheduler.volumes.volume_claims import Document
from rota.testing import volumes as make

HOSTS, ZONES = ["a", "b", "c"], ["z1", "z2"]


@st.composite
def affinities(draw: st.DrawFn) -> dict[str, Any]:
    """No demand, a simple one, or one that no index can serve."""
    key, values = draw(st.sampled_from([("host", HOSTS), ("zone", ZONES)]))
    expression = st.fixed_dictionaries(
        {
            "key": st.just(key),
            "operator": st.sampled_from(["In", "In", "NotIn"]),
            "values": st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True),
        }
    )
    terms = draw(st.lists(st.fixed_dictionaries({"matchExpressions": st.lists(expression, max_size=2)}), max_size=2))
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}


@st.composite
def volumes(draw: st.DrawFn) -> list[Document]:
    made: list[Document] = []
    for number in range(draw(st.integers(0, 8))):
        spec = draw(affinities())
        if draw(st.integers(0, 9)) == 0:
            spec["claimRef"] = {"namespace": "default", "name": draw(st.sampled_from(["data", "other"]))}
        phase = draw(st.sampled_from(["Available", "Available", "Bound"]))
        size = f"{draw(st.integers(1, 3))}Gi"
        made.append(make.volume(f"v{number}", size=size, storage_class="slow", phase=phase, spec=spec))
    return made


def plain(claim: Document, offered: list[Document], labels: dict[str, str], taken: set[str]) -> str | None:
    """The walk over all volumes, as kube-scheduler takes it."""
    best: Document | None = None
    for volume in offered:
        reserved = volume["spec"].get("claimRef") is not None
        mine = matching.bound_to(volume, claim)
        size, wanted = matching.capacity(volume), volume_claims.request(claim) or matching.NOTHING
        if volume["metadata"]["name"] in taken or (reserved and not mine) or size < wanted:
            continue
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        here = required is None or nodeselectors.compile_selector(required).matches(labels, "")
        if mine:
            return volume["metadata"]["name"] if here else None
        if volume["status"]["phase"] == "Available" and here and (best is None or size < matching.capacity(best)):
            best = volume
    return None if best is None else best["metadata"]["name"]


@pytest.mark.slow
@settings(deadline=None)
@given(
    offered=volumes(),
    gibibytes=st.integers(1, 3),
    labels=st.fixed_dictionaries({}, optional={"host": st.sampled_from(HOSTS), "zone": st.sampled_from(ZONES)}),
    taken=st.sets(st.sampled_from(["v0", "v1", "v2"])),
)
def test_the_index_agrees_with_a_plain_walk(
    offered: list[Document], gibibytes: int, labels: dict[str, str], taken: set[str]
) -> None:
    claim = make.claim("data", size=f"{gibibytes}Gi", storage_class="slow")
    untaken = [volume for volume in offered if matching.bound_to(volume, claim) is False]
    taken &= {volume["metadata"]["name"] for volume in untaken}  # nobody else takes what is meant for the claim
    found = matching.candidates(claim, matching.Shelf().stock(offered)).best(labels, taken)
    assert (None if found is None else found["metadata"]["name"]) == plain(claim, offered, labels, taken)


def test_an_offer_is_compiled_once_per_version_of_its_volume() -> None:
    shelf, one, two = matching.Shelf(), make.volume("one"), make.volume("two")
    first = shelf.stock([one, two])
    newer = make.volume("two", size="9Gi")
    second = shelf.stock([one, newer])
    assert second[0] is first[0]
    assert second[1].volume is newer
