"""Pods of controllers: made once, counted after they are known, adopted and released with care."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import errors, meta, selectors
from rota.client.events.correlation import Source
from rota.client.events.recorder import EventRecorder
from rota.client.expectations import TIMEOUT_S, Expectations
from rota.client.informers.cache import Key
from rota.controllers import controller_ref_manager, pod_control
from rota.controllers.controller_ref_manager import Claims, OwnerKind
from rota.controllers.pod_control import PODS, PodControl
from rota.testing import manifests
from rota.testing.clocks import FakeClock
from rota.testing.virtual_api import VirtualCluster

REPLICA_SETS = ("apps", "v1", "replicasets")
KIND = OwnerKind(api_version="apps/v1", kind="ReplicaSet", target=REPLICA_SETS)
KEY = Key("default", "p")
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}


def pod(uid: str, version: int, *, deleting: bool = False) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": {**metadata, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}}


class TestExpectations:
    def test_an_owner_is_settled_once_the_cache_has_what_was_made(self) -> None:
        it = Expectations(FakeClock())
        it.expect("o", KEY)
        it.confirm(KEY, pod("u", 7))
        assert not it.settled("o")
        it.observe(KEY, None, pod("u", 7))
        assert it.settled("o")

    def test_news_may_be_faster_than_the_answer(self) -> None:
        it = Expectations(FakeClock())
        it.expect("o", KEY)
        it.observe(KEY, None, pod("u", 7))
        it.observe(KEY, pod("u", 9), None)
        assert not it.settled("o")
        it.confirm(KEY, pod("u", 7))
        assert it.settled("o")

    def test_a_namesake_that_came_and_went_before_is_another(self) -> None:
        it = Expectations(FakeClock())
        it.expect("o", KEY)
        it.observe(KEY, pod("former", 5), None)
        it.confirm(KEY, pod("u", 7))
        assert not it.settled("o")

    def test_a_deletion_is_seen_when_the_pod_is_on_its_way_out_and_not_by_other_changes(self) -> None:
        it = Expectations(FakeClock())
        it.expect("o", KEY, of=pod("u", 7), going=True)
        it.confirm(KEY, {})
        it.observe(KEY, pod("u", 7), pod("u", 8))
        assert not it.settled("o")
        it.observe(KEY, pod("u", 8), pod("u", 9, deleting=True))
        assert it.settled("o")

    def test_a_change_is_seen_in_its_version_or_a_later_one(self) -> None:
        it = Expectations(FakeClock())
        it.expect("o", KEY, of=pod("u", 7))
        it.confirm(KEY, pod("u", 9))
        it.observe(KEY, pod("u", 7), pod("u", 8))
        assert not it.settled("o")
        it.observe(KEY, pod("u", 8), pod("u", 11))
        assert it.settled("o")

    def test_a_change_that_changed_nothing_is_over_with_its_answer(self) -> None:
        it = Expectations(FakeClock())
        it.expect("o", KEY, of=pod("u", 7))
        it.confirm(KEY, pod("u", 7))
        assert it.settled("o")

    def test_a_second_write_does_not_make_the_first_one_seen(self) -> None:
        it = Expectations(FakeClock())
        it.expect("o", KEY, of=pod("u", 7))
        it.confirm(KEY, pod("u", 9))
        it.expect("o", KEY, of=pod("u", 9))
        it.confirm(KEY, pod("u", 9))
        assert not it.settled("o")
        it.observe(KEY, pod("u", 7), pod("u", 9))
        assert it.settled("o")

    async def test_what_never_comes_is_given_up(self) -> None:
        clock = FakeClock()
        it = Expectations(clock)
        it.expect("o", KEY)
        it.confirm(KEY, pod("u", 7))
        await clock.advance(TIMEOUT_S - 1)
        assert not it.settled("o")
        assert it.patience_s("o") == 1
        await clock.advance(1)
        assert it.settled("o")

    @given(st.integers(0, 3))
    def test_whenever_the_answer_comes_it_and_all_news_settle_it(self, before: int) -> None:
        news = [(None, pod("u", 1)), (pod("u", 1), pod("u", 2)), (pod("u", 2), None)]
        it = Expectations(FakeClock())
        it.expect("o", KEY)
        for old, new in news[:before]:
            it.observe(KEY, old, new)
        it.confirm(KEY, pod("u", 1))
        for old, new in news[before:]:
            it.observe(KEY, old, new)
        assert it.settled("o")


class TestSlowStart:
    async def test_batches_double_and_end_with_the_first_failure(self) -> None:
        begun: list[int] = []

        async def one(number: int) -> None:
            begun.append(number)
            if number >= 5:
                raise errors.Forbidden("quota")

        started = await pod_control.slow_start(100, one)
        assert begun == [0, 1, 2, 3, 4, 5, 6]
        assert started.done == 5
        assert isinstance(started.error, errors.Forbidden)

    async def test_all_are_done_if_none_fails(self) -> None:
        begun: list[int] = []

        async def one(number: int) -> None:
            begun.append(number)

        assert await pod_control.slow_start(11, one) == pod_control.Started(11)
        assert begun == list(range(11))
        assert await pod_control.slow_start(0, one) == pod_control.Started(0)


async def _owner(cluster: VirtualCluster, name: str = "web") -> dict[str, Any]:
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    made = await cluster.client.create(
        REPLICA_SETS,
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        },
    )
    return KIND.complete(made)


def _control(cluster: VirtualCluster, rng: Any = None) -> tuple[PodControl, Expectations]:
    expectations = Expectations(cluster.clock)
    recorder = EventRecorder(cluster.client, Source(component="test"), clock=cluster.clock, rng=cluster.rng)
    control = PodControl(cluster.client, recorder=recorder, expectations=expectations, rng=rng or cluster.rng)
    return control, expectations


async def test_a_pod_of_a_template_belongs_to_its_owner(cluster: VirtualCluster) -> None:
    owner = await _owner(cluster)
    control, expectations = _control(cluster)
    made = await control.create(owner, pod_control.from_template(owner, TEMPLATE), name_prefix="web-")
    assert made is not None
    assert meta.name(made).startswith("web-")
    assert made["metadata"]["generateName"] == "web-"
    assert (meta.labels(made), meta.annotations(made)) == ({"app": "web"}, {"a": "b"})
    assert meta.controller_of(made) == meta.controller_reference(owner)
    assert not expectations.settled(meta.uid(owner))


async def test_a_creation_whose_answer_was_lost_makes_no_second_pod(cluster: VirtualCluster) -> None:
    owner = await _owner(cluster)
    for _ in range(2):  # the same draw twice, as if the first request were sent again
        control, _unused = _control(cluster, random.Random(3))
        await control.create(owner, pod_control.from_template(owner, TEMPLATE), name_prefix="web-")
    assert len((await cluster.client.list(PODS, namespace="default")).items) == 1


async def test_a_name_that_another_has_is_drawn_anew(cluster: VirtualCluster) -> None:
    first, second = await _owner(cluster), await _owner(cluster, "web2")
    for owner in (first, second):
        control, _unused = _control(cluster, random.Random(3))
        assert await control.create(owner, pod_control.from_template(owner, TEMPLATE), name_prefix="web-")
    assert len((await cluster.client.list(PODS, namespace="default")).items) == 2


async def test_a_refused_creation_is_not_expected(cluster: VirtualCluster) -> None:
    owner = await _owner(cluster)
    control, expectations = _control(cluster)
    with pytest.raises(errors.Invalid):
        await control.create(owner, pod_control.from_template(owner, {"spec": {}}), name_prefix="web-")
    assert expectations.settled(meta.uid(owner))


async def test_only_the_very_pod_is_deleted(cluster: VirtualCluster) -> None:
    owner = await _owner(cluster)
    control, expectations = _control(cluster)
    made = await cluster.client.create(PODS, manifests.pod("p"), namespace="default")
    namesake = {**made, "metadata": {**made["metadata"], "uid": "another"}}
    assert not await control.delete(owner, namesake)
    assert expectations.settled(meta.uid(owner))
    assert await control.delete(owner, made)
    assert await control.change(owner, made, {"labels": {"x": "y"}}) is None


class TestClaims:
    SELECTOR = selectors.from_object({"matchLabels": {"app": "web"}})

    async def _claim(self, cluster: VirtualCluster, owner: dict[str, Any]) -> list[str]:
        pods = (await cluster.client.list(PODS, namespace="default")).items
        own = Claims(
            cluster.client,
            PODS,
            KIND,
            expectations=Expectations(cluster.clock),
            finalizer="example.com/kept",
        )
        found = await own.claim(owner, self.SELECTOR, pods)
        return sorted(meta.name(one) for one in found)

    async def test_orphans_that_are_selected_are_adopted_and_what_is_not_any_more_released(
        self, cluster: VirtualCluster
    ) -> None:
        owner = await _owner(cluster)
        for name, labels in (("mine", {"app": "web"}), ("other", {"app": "db"})):
            await cluster.client.create(PODS, manifests.pod(name, labels=labels), namespace="default")
        assert await self._claim(cluster, owner) == ["mine"]
        adopted = await cluster.client.get(PODS, "mine", namespace="default")
        assert meta.controller_of(adopted) == meta.controller_reference(owner)
        assert meta.finalizers(adopted) == ["example.com/kept"]
        assert meta.controller_of(await cluster.client.get(PODS, "other", namespace="default")) is None
        await cluster.client.patch(PODS, "mine", {"metadata": {"labels": {"app": "db"}}}, namespace="default")
        assert await self._claim(cluster, owner) == []
        released = await cluster.client.get(PODS, "mine", namespace="default")
        assert meta.controller_of(released) is None
        assert not meta.finalizers(released)

    async def test_pods_of_another_controller_are_left_alone(self, cluster: VirtualCluster) -> None:
        first, second = await _owner(cluster), await _owner(cluster, "web2")
        await cluster.client.create(PODS, manifests.pod("p", labels={"app": "web"}), namespace="default")
        results = await asyncio.gather(self._claim(cluster, first), self._claim(cluster, second))
        assert sorted(results) == [[], ["p"]]

    async def test_an_owner_that_was_deleted_meanwhile_adopts_nothing(self, cluster: VirtualCluster) -> None:
        owner = await _owner(cluster)
        await cluster.client.delete(REPLICA_SETS, "web", namespace="default")
        await _owner(cluster)  # a namesake
        await cluster.client.create(PODS, manifests.pod("p", labels={"app": "web"}), namespace="default")
        assert await self._claim(cluster, owner) == []
        assert meta.controller_of(await cluster.client.get(PODS, "p", namespace="default")) is None

    def test_objects_without_a_controller_are_indexed_by_namespace(self) -> None:
        assert controller_ref_manager.by_controller(pod("u", 1)) == (controller_ref_manager.orphans("default"),)
