"""HTTP client for the commands that query the running daemon, and their option for its role."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from checkpointer.cli.operator_login import log_in_as_operator
from checkpointer.daemon.daemon_address import DaemonAddresses, daemon_addresses
from checkpointer.errors import TLS_HINT, TransferError
from hadoop_common.cli.output import echo, load_configuration
from hadoop_common.configuration import ConfigurationError, ConfigurationFault
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import is_tls_fault, network_reason
from hadoop_common.quantities import counted
from site_config.checkpoint_config import Role

F = TypeVar("F", bound=Callable[..., Any])

_CONNECT_TIMEOUT = 10.0
_LOG_HINT = "Check the daemon's log."
_FROZEN_HINT = (
    "The daemon accepts connections but does not answer: `ps -o pid,stat,args -C checkpointer` shows whether its "
    "process is stopped (T) or waits for a disk (D); the end of its log shows its last action. `kill -QUIT PID` prints "
    "the stacks of its threads on its standard error, which systemd keeps in its journal (`journalctl`)."
)
_SLOW_HINT = "The daemon may still be working on this request; `checkpointer status` shows its state."
_HERE_HINT = "Run this command on the daemon's host, as a user named in the answer."
_TOKEN_HINT = (
    "The daemon refuses this login for the stated reason. Check that the clocks of both hosts agree (NTP), that the "
    "daemon's keytab contains the current key of HTTP/HOST, and hadoop.security.auth_to_local. After a change of this "
    "key, log in again (kinit)."
)
_LOGIN_HINT = "On this host, set hadoop.security.authentication to the value on the daemon's host, and log in (kinit)."


class _UnreachableError(TransferError):
    """Failure to reach a server, because no process listens at its address."""


class NoAnswerError(TransferError):
    """Lack of an answer in time from a server that accepted the connection."""


def role_option(
    text: str = "Role of the daemon (default: first the configured role, then the other roles).",
) -> Callable[[F], F]:
    """Add the --role option, whose default is None; `text` is its help."""
    names = click.Choice([role.value for role in Role])
    return click.option("--role", type=names, callback=lambda _, __, name: name and Role(name), help=text)


def find_daemon(conf_dir: Path, role: Role | None, *, warns: bool = True) -> DaemonAddresses:
    """Log in as the operator, and return the addresses at which the daemon may listen.

    Args:
        warns: whether warnings about the configuration's values go to standard error.

    Raises:
        ConfigurationError: the configuration does not contain the address.
        KerberosSetupError: Kerberos cannot be used on this host.
    """
    configuration = load_configuration(conf_dir, warns=warns)
    found = daemon_addresses(configuration, role)
    # the faults of the login are among `found.faults`; many daemons need no login
    with suppress(ConfigurationError):
        log_in_as_operator(configuration, role)
    return found


def find_again(known: DaemonAddresses, conf_dir: Path, role: Role | None) -> DaemonAddresses:
    """Return the addresses and faults of the present configuration, with the `known` addresses last."""
    try:
        found = find_daemon(conf_dir, role, warns=False)
    except ConfigurationError as error:
        return replace(known, faults=error.faults)
    except HdfsError:
        # keep the previous login; a request reports why this login is not sufficient
        return known
    return replace(found, urls={**found.urls, **known.urls})


def warn_of_faults(conf_dir: Path, faults: Sequence[ConfigurationFault]) -> None:
    """Warn that a restart of a running daemon would fail because of these faults, if there are any."""
    if not faults:
        return
    more = f" (and {counted(len(faults) - 1, 'other fault')})" if len(faults) > 1 else ""
    echo(
        f"warning: the configuration in {conf_dir} is faulty, so a reload would change nothing and a restart of the "
        f"daemon would fail: {faults[0]}{more}",
        err=True,
    )


def ask_daemon(
    daemon: DaemonAddresses, method: str, path: str, query: dict[str, str], timeout: float | None
) -> tuple[str, int, dict[str, Any]]:
    """Send a request to the first reachable daemon; return the URL, the status and the JSON object (empty for other
    JSON).

    Args:
        timeout: seconds to wait for a response, None if unlimited.

    Raises:
        TransferError: no daemon accepts connections, or a daemon does not answer.
        ConfigurationError: no daemon accepts connections, and the configuration has faults.
    """
    for url in daemon.urls:
        try:
            return (asked := f"{url}/{path}"), *_call(method, asked, query, timeout)
        except _UnreachableError:
            # the daemon may listen at the next address; the final error names all addresses
            continue
    raise daemon.not_found()


def known_answer(url: str, status: int, answer: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    """Return `answer` if it has all `keys`; otherwise raise TransferError, because the sender is not a daemon."""
    if not keys <= answer.keys():
        raise TransferError(
            url,
            "this is not the response of a checkpoint daemon",
            status=status,
            hint="Check which process listens at this address, or specify the daemon's role with --role.",
        )
    return answer


def _name_of(host: str) -> str:
    """Return our host name for a loopback address, because the server's principal contains a host name."""
    return socket.getfqdn() if host in ("127.0.0.1", "::1") else host


def _call(method: str, url: str, query: dict[str, str], timeout: float | None) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of a response; the object is empty for other JSON."""
    # imported here, because `--help` and usage errors do not need the HTTP client
    from hadoop_common.cluster_http import UnreachableServerError, send_request
    from hadoop_rpc.spnego import Spnego

    spnego = Spnego(_name_of(urlsplit(url).hostname or ""))
    try:
        answer = send_request(method, url, query=query, headers=spnego.headers, timeout=(_CONNECT_TIMEOUT, timeout))
    except UnreachableServerError as error:
        raise _UnreachableError(url, "the connection failed") from error
    except TimeoutError as error:
        hint = _FROZEN_HINT if method == "GET" else _SLOW_HINT
        raise NoAnswerError(url, f"no answer within {timeout:g} s", hint=hint) from error
    except OSError as error:
        if is_tls_fault(error):
            raise TransferError(url, network_reason(error), hint=TLS_HINT) from error
        problem = f"the daemon closed the connection: {network_reason(error)}"
        raise TransferError(url, problem, hint=_LOG_HINT) from error
    if answer.status == HTTPStatus.UNAUTHORIZED:
        raise TransferError(url, answer.text, status=answer.status, hint=_LOGIN_HINT)
    if answer.status == HTTPStatus.FORBIDDEN:
        # a daemon that accepts our token also sends a token, even if it refuses the request
        logged_in = answer.challenges or not spnego.headers
        raise TransferError(url, answer.text, status=answer.status, hint=_HERE_HINT if logged_in else _TOKEN_HINT)
    content = answer.json
    if content is None:
        raise TransferError(url, "this is not the response of a checkpoint daemon: it is not JSON", hint=_LOG_HINT)
    return answer.status, content if isinstance(content, dict) else {}
