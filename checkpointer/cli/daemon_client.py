"""Commands that ask the running daemon over HTTP."""

from __future__ import annotations

import socket
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from checkpointer.daemon.daemon_address import DaemonNotFoundError
from checkpointer.errors import TransferError
from hadoop_common.file_faults import network_reason
from site_config.checkpoint_config import Role

_CONNECT_TIMEOUT = 10.0
_LOG_HINT = "Check the daemon's log."
_FROZEN_HINT = (
    "It accepts connections but does not answer: `ps -o pid,stat,args -C checkpointer` shows whether its process is "
    "stopped (T) or waits for a disk (D); the end of its log shows what it did last."
)
_SLOW_HINT = "Whether it still works on this is not known: `checkpointer status` asks."
_HERE_HINT = "Run this command on the daemon's host, as a user that the answer names."
_LOGIN_HINT = "Set hadoop.security.authentication here as the daemon has it, and log in (kinit)."


class _UnreachableError(TransferError):
    """Nobody listens there."""


class NoAnswerError(TransferError):
    """Connections are accepted there, but no answer came in time."""


def ask_daemon(
    urls: dict[str, Role], method: str, path: str, query: dict[str, str], timeout: float | None
) -> tuple[str, int, dict[str, Any]]:
    """URL asked, status and JSON object, empty where it is none, of the first daemon that can be connected to.

    Args:
        timeout: seconds to wait for an answer, None for no limit.

    Raises:
        DaemonNotFoundError: none can.
        TransferError: one can, but does not answer.
    """
    for url in urls:
        try:
            return (asked := f"{url}/{path}"), *_call(method, asked, query, timeout)
        except _UnreachableError:
            # the next candidate may be the one; all are named when none answers
            continue
    raise DaemonNotFoundError(urls)


def known_answer(url: str, status: int, answer: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    """The answer itself where it has all `keys`; TransferError where it is not a daemon's."""
    if not keys <= answer.keys():
        raise TransferError(
            url,
            "the answer is not a checkpoint daemon's",
            status=status,
            hint="Check which process listens there, or name the daemon's role with --role.",
        )
    return answer


def _name_of(host: str) -> str:
    """Our host by its own name where it is the loopback address: servers have no keys for addresses."""
    return socket.getfqdn() if host in ("127.0.0.1", "::1") else host


def _call(method: str, url: str, query: dict[str, str], timeout: float | None) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of an answer, empty where it is none."""
    # `--help` and wrong usage are told without them.
    import requests
    import urllib3

    from hadoop_rpc.spnego import Spnego
    from servlets.bounded_answer import ask

    spnego = Spnego(_name_of(urlsplit(url).hostname or ""))
    try:
        answer = ask(method, url, query=query, headers=spnego.headers, timeout=(_CONNECT_TIMEOUT, timeout))
    except (requests.ReadTimeout, urllib3.exceptions.ReadTimeoutError) as error:
        hint = _FROZEN_HINT if method == "GET" else _SLOW_HINT
        raise NoAnswerError(url, f"no answer within {timeout:g} s", hint=hint) from error
    except requests.ConnectionError as error:
        reason = getattr(error.args[0] if error.args else None, "reason", None)
        if isinstance(reason, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
            raise _UnreachableError(url, "cannot be connected to") from error
        raise TransferError(url, f"the daemon broke off: {network_reason(error)}", hint=_LOG_HINT) from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise TransferError(url, f"the daemon broke off: {network_reason(error)}", hint=_LOG_HINT) from error
    if answer.status == HTTPStatus.UNAUTHORIZED:
        raise TransferError(url, answer.text, status=answer.status, hint=_LOGIN_HINT)
    if answer.status == HTTPStatus.FORBIDDEN:
        raise TransferError(url, answer.text, status=answer.status, hint=_HERE_HINT)
    content = answer.json
    if content is None:
        raise TransferError(url, "the answer is not a checkpoint daemon's: no JSON", hint=_LOG_HINT)
    return answer.status, content if isinstance(content, dict) else {}
