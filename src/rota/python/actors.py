"""`@rota.actor`: a class whose instance lives in a leased worker of its own, and whose methods are called from here.

    @rota.actor(memory="1Gi")
    class Model:
        def __init__(self, path: str) -> None: ...
        def predict(self, text: str) -> float: ...

    with Model.start("weights.bin") as model:
        print(model.predict.submit("hello").result())

Calls of one actor run one after the other, in the order of their submission. The instance is in the memory of its
worker: if the worker ends, its calls fail and say so, and it is not made again silently.

mypy does not see what decorators make of classes; for it, write `Models = rota.actor(Model)`.
"""

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from rota.python import clients, manifests
from rota.python.clients import Client
from rota.python.futures import Future
from rota.python.lease_manager import ACTOR_LABEL
from rota.python.options import OptionError, Options, TaskOptions
from rota.python.tasks import Task

C = TypeVar("C")
P = ParamSpec("P")


def _make(name: str, kind: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Make the instance; in the worker."""
    import sys  # noqa: PLC0415 - it runs elsewhere
    import types  # noqa: PLC0415 - as above

    home = sys.modules["_rota_actor"] = types.ModuleType("_rota_actor")
    home.__dict__[name] = kind(*args, **kwargs)


def _invoke(name: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of the instance; in the worker."""
    import sys  # noqa: PLC0415 - as above

    home = sys.modules.get("_rota_actor")
    if home is None or name not in home.__dict__:
        raise RuntimeError(f"the actor {name} is gone: the process that it lived in has ended; start another one")
    return getattr(home.__dict__[name], method)(*args, **kwargs)


# They are sent by value, so that the worker's Python need not have Rota.
_make.__module__ = _invoke.__module__ = "__main__"


class Method:
    """A method of an actor."""

    def __init__(self, actor: "Actor", name: str) -> None:
        self._actor: Final = actor
        self._name: Final = name

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call it; returns the future of its result."""
        return self._actor._submit(self._name, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, and wait for its result."""
        return self.submit(*args, **kwargs).result()


class Actor:
    """An instance in a leased worker. Its attributes are the methods of its class."""

    def __init__(self, client: Client, name: str, options: Options) -> None:
        self._client: Final = client
        self._name: Final = name
        self._options: Final = options

    def _submit(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        return self._client.submit(Task(_invoke, self._options), self._name, method, args, kwargs)

    def __getattr__(self, name: str) -> Method:
        if name.startswith("_"):
            raise AttributeError(name)
        return Method(self, name)

    def close(self) -> None:
        """End the actor: its worker is given back, and its unfinished calls fail."""
        self._client.end_actor(self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rota.Actor {self._name}>"


class ActorClass(Generic[P]):
    """A class whose instances live in leased workers."""

    def __init__(self, kind: Callable[P, Any], options: Options) -> None:
        functools.update_wrapper(self, kind, updated=())
        self._kind: Final = kind
        self._options: Final = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """An instance in this process, as the class itself makes it."""
        return self._kind(*args, **kwargs)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Actor:
        """Make an instance in a worker of its own; raises what the constructor raises."""
        client = clients.default()
        name = manifests.fresh_name(getattr(self._kind, "__name__", "actor"))
        options = self._options.changed(labels={**self._options.labels, ACTOR_LABEL: name})
        actor = Actor(client, name, options)
        try:
            client.submit(Task(_make, options), name, self._kind, args, kwargs).result()
        except BaseException:
            actor.close()
            raise
        return actor


@overload
def actor(kind: Callable[P, Any], /) -> ActorClass[P]: ...


@overload
def actor(**overrides: Unpack[TaskOptions]) -> Callable[[Callable[P, Any]], ActorClass[P]]: ...


def actor(kind: Callable[..., Any] | None = None, /, **overrides: Any) -> Any:
    """Make an actor of a class: `@rota.actor`, or with options `@rota.actor(cpu=2)`."""
    options = Options().changed(**overrides)
    refused = [name for name in ("durable", "gang", "retries", "idempotent") if getattr(options, name)]
    if refused:
        raise OptionError(f"an actor has no {refused[0]}: its state is in one process", "leave it out")
    if kind is not None:
        return ActorClass(kind, options)
    return lambda given: ActorClass(given, options)
