"""Names of objects that a federation creates: bindings, Works, and related objects."""

from typing import Final

from rota.api.names import SUFFIX_ALPHABET
from rota.federation.fnv import fnv32a

EXECUTION_SPACE: Final = "karmada-es-"
_RESERVED: Final = frozenset({"karmada-system", "karmada-cluster"})


def _safe(number: int) -> str:
    """A number's decimal digits in an alphabet without vowels, so that no words come up by chance."""
    return "".join(SUFFIX_ALPHABET[ord(digit) % len(SUFFIX_ALPHABET)] for digit in str(number))


def _hashed(text: str) -> str:
    return _safe(fnv32a(text))


def _plain(name: str) -> str:
    return name.replace(":", ".")


def execution_space(cluster: str) -> str:
    """The namespace of a cluster's Works."""
    return EXECUTION_SPACE + cluster


def cluster_of(namespace: str) -> str | None:
    """The cluster whose Works are in a namespace, if it is such a namespace."""
    return namespace.removeprefix(EXECUTION_SPACE) if namespace.startswith(EXECUTION_SPACE) else None


def binding(kind: str, name: str) -> str:
    """The name of a resource's binding."""
    return f"{_plain(name)}-{kind}".lower()


def binding_key(namespace: str, name: str) -> str:
    """A short key for references to a binding in labels."""
    return _hashed(f"{namespace}/{name}" if namespace else name)


def work(kind: str, name: str, namespace: str) -> str:
    """The name of the Work that carries a resource."""
    plain = _plain(name).lower()
    full = f"{namespace}-{plain}-{kind}" if namespace else f"{plain}-{kind}"
    return f"{plain}-{_hashed(full.lower())}"


def policy(namespace: str, name: str, gvk: str) -> str:
    """The name of the policy that is made for a promoted resource."""
    return f"{_plain(name)}-{_hashed(namespace + gvk)}".lower()


def endpoint_slice(name: str, cluster: str) -> str:
    """The name of an EndpointSlice that was imported from a cluster."""
    return f"imported-{cluster}-{name}"


def derived_service(name: str) -> str:
    """The name of the Service that stands for an imported one."""
    return f"derived-{name}"


def is_reserved(namespace: str) -> bool:
    """Whether a namespace is the federation's own, so that nothing in it is propagated."""
    return namespace in _RESERVED or namespace.startswith(EXECUTION_SPACE)
