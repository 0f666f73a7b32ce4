"""HTTP requests of the plugin `extender`: one POST per question, sent from the thread that runs the pass."""

import urllib.error
import urllib.request
from typing import Final

from rota.kit import logs

log = logs.get(__name__)

#: A longer answer is an error.
_LONGEST_ANSWER: Final = 64 << 20
#: Proxies of the environment are for other addresses than those of an extender.
_opener: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(address: str, body: bytes, timeout_s: float) -> bytes:
    """Give the body of a successful answer; raises OSError."""
    request = urllib.request.Request(address, data=body, headers={"Content-Type": "application/json"})  # noqa: S310
    try:
        with _opener.open(request, timeout=timeout_s) as response:
            answer: bytes = response.read(_LONGEST_ANSWER + 1)
    except OSError as error:
        log.warning("extender gave no answer", address=address, error=error)
        raise
    except ValueError as error:
        raise OSError(str(error)) from error
    if len(answer) > _LONGEST_ANSWER:
        raise OSError(f"the answer is longer than {_LONGEST_ANSWER >> 20} MiB")
    return answer
