"""OpenTelemetry spans: one per attempt, and inside it one per plugin and extension point. Off by default.

`rota scheduler --trace` needs the extra `rota[tracing]`; nothing is imported otherwise, and an untraced scheduler calls
its plugins directly. OpenTelemetry's environment variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME and so on),
or `opentelemetry-instrument`, say where spans go.
"""

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from rota.columns.pods import PodInfo
from rota.kit.errors import UserError
from rota.scheduler.framework.plugin_interfaces import METHODS, ExtensionPoint
from rota.scheduler.framework.runtime import Framework

_NAME: Final = "rota.scheduler"
_MARK: Final = "rota_traced"
#: Methods that `PluginMethods` has already looked up.
_KEPT: Final = ("filter", "filter_nodes", "score", "score_nodes")
#: Called for every pod many times, outside of attempts.
_UNTRACED: Final = frozenset({ExtensionPoint.QUEUE_SORT, ExtensionPoint.PRE_ENQUEUE})


class Tracer(Protocol):
    """The one method of OpenTelemetry's tracers that is used here."""

    def start_as_current_span(
        self, name: str, *, attributes: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Any]:
        """A span around a `with` block; an exception inside is recorded on it."""


def installed() -> Tracer:
    """OpenTelemetry's tracer; if OpenTelemetry is not set up yet, it is, by its environment variables."""
    try:
        trace: Any = importlib.import_module("opentelemetry.trace")
        sdk: Any = importlib.import_module("opentelemetry.sdk.trace")
        export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
        otlp: Any = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError as error:
        raise UserError(f"tracing needs OpenTelemetry: {error}", "pip install 'rota[tracing]'") from error
    if not isinstance(trace.get_tracer_provider(), sdk.TracerProvider):
        provider = sdk.TracerProvider()
        provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    tracer: Tracer = trace.get_tracer(_NAME)
    return tracer


def attempt(tracer: Tracer, pod: PodInfo) -> AbstractContextManager[Any]:
    """The span of one attempt."""
    return tracer.start_as_current_span("attempt", attributes={"pod": pod.key, "uid": pod.uid})


def trace(framework: Framework, tracer: Tracer) -> None:
    """Trace every call of the framework's plugins from now on."""
    for point, names in METHODS.items():
        if point in _UNTRACED:
            continue
        for plugin in framework.at(point):
            attributes = {"plugin": plugin.name, "profile": framework.profile_name}
            for name in names:
                call = getattr(plugin, name, None)
                if call is not None and not hasattr(call, _MARK):
                    traced = _traced(call, tracer, point.value, attributes)
                    setattr(traced, _MARK, True)
                    # A class with slots accepts no new attributes; its calls are part of the attempt's span.
                    with contextlib.suppress(AttributeError):
                        setattr(plugin, name, traced)
    for forms in (*framework.filters, *framework.scorers):
        for name in _KEPT:
            if getattr(forms, name) is not None:
                setattr(forms, name, getattr(forms.plugin, name))


def _traced(call: Callable[..., Any], tracer: Tracer, name: str, attributes: Mapping[str, str]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(call):

        @functools.wraps(call)
        async def awaited(*args: Any, **options: Any) -> Any:
            with tracer.start_as_current_span(name, attributes=attributes):
                return await call(*args, **options)

        return awaited

    @functools.wraps(call)
    def called(*args: Any, **options: Any) -> Any:
        with tracer.start_as_current_span(name, attributes=attributes):
            return call(*args, **options)

    return called
