"""Spans of attempts and plugins, by a tracer with OpenTelemetry's one method."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

import pytest

from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.kit.errors import UserError
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.observability import tracing
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.service import Scheduler
from rota.testing import schedulers

_PARENT: ContextVar[str] = ContextVar("parent", default="")


class Spans:
    """Takes down spans, with those around them, as OpenTelemetry does by the same means."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Mapping[str, str]]] = []

    @contextlib.contextmanager
    def start_as_current_span(self, name: str, *, attributes: Mapping[str, str] | None = None) -> Iterator[None]:
        self.seen.append((_PARENT.get(), name, dict(attributes or {})))
        token = _PARENT.set(name)
        try:
            yield
        finally:
            _PARENT.reset(token)


class Slotted:
    """A plugin that nothing can be put on."""

    __slots__ = ()
    name: ClassVar[str] = "Slotted"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        pass


async def test_an_attempt_holds_the_spans_of_its_plugins_down_to_the_binding() -> None:
    spans = Spans()
    async with schedulers.cluster() as cluster:
        await cluster.add_node("n1")
        await cluster.add_node("n2")
        scheduler = Scheduler(
            cluster.client,
            schedulers.configured(),
            clock=cluster.clock,
            rng=cluster.rng,
            identity="test",
            elect=False,
            tracer=spans,
        )
        async with cluster.running(scheduler.run):
            await cluster.add_pod("web")
            await cluster.bound("web")
    ((_, _, about),) = (span for span in spans.seen if span[1] == "attempt")
    assert about["pod"] == "default/web"
    inside = {(name, attributes["plugin"]) for parent, name, attributes in spans.seen if parent == "attempt"}
    for point in (
        ("preFilter", "NodeResourcesFit"),
        ("filter", "NodeResourcesFit"),
        ("preScore", "TaintToleration"),
        ("score", "NodeResourcesFit"),
        ("reserve", "VolumeBinding"),
    ):
        assert point in inside
    assert all(attributes["profile"] == "default-scheduler" for _, name, attributes in spans.seen if name != "attempt")


def test_a_plugin_that_takes_no_methods_is_left_as_it_is_and_no_other_is_wrapped_twice() -> None:
    spans = Spans()
    loaded = schedulers.configured("profiles: [{plugins: {filter: {enabled: [{name: Slotted}]}}}]", Slotted)
    framework = Framework(loaded.configuration.first, loaded.registry)
    tracing.trace(framework, spans)
    tracing.trace(framework, spans)
    fit = framework.plugins["NodeResourcesFit"]
    assert not hasattr(fit.filter.__wrapped__, "__wrapped__")
    assert not hasattr(framework.plugins["Slotted"].filter, "__wrapped__")
    names = [forms.name for forms in framework.filters if hasattr(forms.filter, "__wrapped__")]
    assert "NodeResourcesFit" in names
    assert "Slotted" not in names


def test_nothing_is_wrapped_without_a_tracer() -> None:
    loaded = third_party.default(builtin.registry())
    framework = Framework(loaded.configuration.first, loaded.registry)
    assert not any(hasattr(forms.filter, "__wrapped__") for forms in framework.filters)


def test_without_opentelemetry_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(UserError, match=r"tracing needs OpenTelemetry: .*; pip install 'rota\[tracing\]'"):
        tracing.installed()


def test_opentelemetry_is_set_up_unless_it_is_already(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Provider:
        def add_span_processor(self, processor: Any) -> None:
            made.append(processor)

    class Trace:
        provider: ClassVar[Any] = None

        @classmethod
        def get_tracer_provider(cls) -> Any:
            return cls.provider

        @classmethod
        def set_tracer_provider(cls, provider: Any) -> None:
            cls.provider = provider

        @staticmethod
        def get_tracer(name: str) -> str:
            return name

    class Sdk:
        TracerProvider = Provider

    class Export:
        BatchSpanProcessor = staticmethod(lambda exporter: exporter)

    class Otlp:
        OTLPSpanExporter = staticmethod(lambda: "exporter")

    for name, module in {
        "opentelemetry.trace": Trace,
        "opentelemetry.sdk.trace": Sdk,
        "opentelemetry.sdk.trace.export": Export,
        "opentelemetry.exporter.otlp.proto.http.trace_exporter": Otlp,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    for _ in range(2):
        assert str(tracing.installed()) == "rota.scheduler"
    assert made == ["exporter"]
