"""Tests of each step of a Kerberos login to each NameNode, which identify the step that fails."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

from checkpointer.checks.facts import LoginStep
from checkpointer.errors import TLS_HINT
from checkpointer.transfer.common import IMAGE_SERVLET, reason_of, servlet_url
from hadoop_common.addresses import host_port
from hadoop_common.cluster_http import send_request
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import is_tls_fault, network_reason
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import AccessControlError, KerberosError, NotAuthorizedError, RpcError, StandbyError
from hadoop_rpc.kerberos import PROCESS, log_in, security_for
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.namenode_protocol import NamenodeClient
from hadoop_rpc.principals import with_host
from hadoop_rpc.rpc_protocol import ServerKind
from hadoop_rpc.spnego import Spnego
from site_config.checkpoint_config import CheckpointConfig
from site_config.kerberos import for_operator


def ask_kerberos(config: CheckpointConfig, timeout: float) -> tuple[LoginStep, ...]:
    """Return the tested steps in order, or an empty tuple if the cluster does not use Kerberos.

    A failed step ends the tests of its NameNode.
    """
    if config.kerberos is None:
        return ()
    # the console runs the checks in the daemon's process, whose login must not change
    login = PROCESS.login or for_operator(config.kerberos.login)
    steps = []
    for step in _own_steps(login):
        steps.append(step)
        if step.error:
            return tuple(steps)
    for (host, port), url in zip(config.namenode_rpc_addresses, config.namenode_http_addresses, strict=True):
        steps += _until_a_fault(_rpc_steps(login, host, port, timeout))
        steps += _until_a_fault(_http_steps(login, url, timeout))
    return tuple(steps)


def _own_steps(login: KerberosLogin) -> Iterator[LoginStep]:
    yield _login_step(f"library and keytab {login.keytab or '(none: tickets of kinit)'}", lambda: log_in(login))
    yield _login_step(
        f"ticket of {login.principal or 'this user'} from the KDC", lambda: PROCESS.tickets.acquire(login)
    )


def _rpc_steps(login: KerberosLogin, host: str, port: int, timeout: float) -> Iterator[LoginStep]:
    def ticket(principal: str) -> None:
        service, _, name = principal.rpartition("@")[0].partition("/")
        security = security_for(ServerKind.NAMENODE, host)
        assert security is not None
        security.context(service, name).step(None)

    faults: list[RpcError] = []

    def call() -> None:
        limits = {"timeout": timeout, "connect_timeout": timeout}
        with NamenodeClient(host, port, user="", retry=NO_RETRY, **limits) as client:
            try:
                client.transaction_id()
            except RpcError as fault:
                faults.append(fault)
                # other faults occurred before the server had authenticated us
                if not isinstance(fault, AccessControlError | NotAuthorizedError | StandbyError):
                    raise

    # the configured principal may contain the canonical name of the host
    names = dict.fromkeys(with_host(login.namenode.principal, each) for each in (host, socket.getfqdn(host)))
    tickets = [_login_step(f"service ticket for {name}", partial(ticket, name)) for name in names]
    configured = next((step for step in tickets if not step.error), tickets[0])
    handshake = _login_step(f"RPC handshake with {host_port(host, port)}", call)
    if not configured.error or any(isinstance(fault, KerberosError) for fault in faults):
        yield configured
    elif not handshake.error:
        key = login.namenode.key
        warning = f"not available ({configured.error}); the server has another principal, which {key}.pattern allows"
        yield LoginStep(configured.name, hint=f"Set {key} to the principal of this NameNode.", warning=warning)
    yield handshake
    yield LoginStep(f"RPC call at {host_port(host, port)}", *((faults[0].message, faults[0].hint) if faults else ()))


def _http_steps(login: KerberosLogin, url: str, timeout: float) -> Iterator[LoginStep]:
    host = urlsplit(url).hostname or ""
    made: list[Spnego] = []
    yield _login_step(f"service ticket for HTTP/{host}@{login.namenode.realm}", lambda: made.append(Spnego(host)))

    def get() -> None:
        # a NameNode checks who may exchange images before it finds that the segment does not exist
        asked = servlet_url(url, {"getedit": "1", "startTxId": "1", "endTxId": "0"})
        try:
            answer = send_request("GET", made[0].named(asked), headers=made[0].headers, timeout=timeout)
        except OSError as fault:
            hint = "Check that the server is running and listens at this address."
            raise RpcError(
                f"no answer: {network_reason(fault)}", hint=TLS_HINT if is_tls_fault(fault) else hint
            ) from fault
        made[0].check(answer.status, answer.challenges)
        if made[0].hint:
            what = "the server does not use Kerberos"
            if answer.status == HTTPStatus.FORBIDDEN:
                what = reason_of(answer.status, answer.reason, answer.content)
            raise RpcError(f"HTTP {answer.status}: {what}", hint=made[0].hint)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            hint = "Check the server's log for the reason: often its clock or its keytab is wrong."
            raise RpcError("the server refused the token (HTTP 401)", hint=hint)
        # an operator who uses a personal ticket does not need the rights of a checkpointer
        if answer.status == HTTPStatus.FORBIDDEN and login.keytab is not None:
            hint = (
                "A NameNode accepts images only from the principals of NameNodes, from the principal of the secondary "
                "with the host of dfs.namenode.secondary.http-address, and from dfs.cluster.administrators, each as in "
                "the NameNode's own configuration."
            )
            raise RpcError(f"HTTP 403: {reason_of(answer.status, answer.reason, answer.content)}", hint=hint)

    yield _login_step(f"GET {url}{IMAGE_SERVLET}", get)


def _until_a_fault(steps: Iterator[LoginStep]) -> Iterator[LoginStep]:
    for step in steps:
        yield step
        if step.error:
            return


def _login_step(name: str, attempt: Callable[[], object]) -> LoginStep:
    try:
        attempt()
    except HdfsError as fault:
        return LoginStep(name, fault.message, fault.hint)
    return LoginStep(name)
