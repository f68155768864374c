"""Tests of each part of the TLS setup: files, key and certificate, trust store, and each server that we call."""

from __future__ import annotations

import http.client
import socket
import ssl
import stat
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from checkpointer.checks.facts import TlsStep
from hadoop_common.addresses import WILDCARDS
from hadoop_common.configuration import ConfigurationError
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import is_tls_fault, network_reason
from hadoop_common.http_connection import connection_for
from hadoop_common.tls.contexts import checks_host, client_context, server_context
from hadoop_common.tls.errors import tls_reason
from hadoop_common.tls.material import TlsMaterial, client_material, server_material
from site_config.checkpoint_config import CheckpointConfig

_FAULTY_HINT = "Correct the file. If this user may not read it, run the check as the daemon's user."
_PROBE = "/jmx?qry=java.lang:type=Runtime"


def ask_files(config: CheckpointConfig, now: float) -> tuple[TlsStep, ...]:
    """Test our server and client files, and skip tests that depend on a failed test. `now` is in seconds."""
    return tuple(_files(config, now))


def _files(config: CheckpointConfig, now: float) -> Iterator[TlsStep]:
    tls = config.web.tls
    found: dict[str, ssl.SSLContext] = {}
    sides: dict[str, tuple[Path, Callable[[], TlsMaterial], Callable[[TlsMaterial], ssl.SSLContext]]] = {
        "server": (tls.server_file, lambda: server_material(tls), lambda made: server_context(made, tls)),
        "client": (
            tls.client_file,
            lambda: client_material(tls),
            lambda made: client_context(made, tls, check_host=checks_host(tls.verifier, _own_host(config))),
        ),
    }
    for side, (path, load, make) in sides.items():
        try:
            material = load()
            found[side] = make(material)
        except HdfsError as fault:
            hint = _FAULTY_HINT if isinstance(fault, ConfigurationError) else fault.hint
            yield TlsStep(f"{side} files", error=fault.message, hint=hint)
            continue
        yield from _dates(side, path, material, now)
        yield from _modes(side, material)
    if len(found) == len(sides):
        yield _convinces(found["server"], found["client"], _own_host(config))


def _own_host(config: CheckpointConfig) -> str:
    host = (config.web.https or config.web.first)[0]
    return socket.getfqdn() if host in WILDCARDS else host


def _dates(side: str, path: Path, material: TlsMaterial, now: float) -> Iterator[TlsStep]:
    own = () if material.pair is None else material.pair.chain
    for kind, certificates in (("our", own), ("the trusted", material.anchors or ())):
        for each in certificates:
            name, end = each.subject.rfc4514_string(), each.not_valid_after_utc
            what = f"{side}: {kind} certificate of {name}"
            ends = end.timestamp()
            problem = f"{what} expired on {end.date()}" if ends <= now else ""
            if each.not_valid_before_utc.timestamp() > now:
                problem = f"{what} is not valid before {each.not_valid_before_utc.date()}"
            hint = f"Renew the certificate in the store that {path} names, or correct this host's clock."
            # an expired trusted certificate affects only the peers that use it
            yield TlsStep(
                f"{what} expires on {end.date()}",
                problem,
                hint,
                ends=ends if kind == "our" else None,
                minor=kind != "our",
            )


def _modes(side: str, material: TlsMaterial) -> Iterator[TlsStep]:
    # the daemons of a host usually share one key store, and read it as members of its group
    if material.pair_file is not None and material.pair_file.stat().st_mode & stat.S_IROTH:
        problem = f"{side}: every user may read the key store {material.pair_file}"
        hint = (
            f"Run chgrp GROUP {material.pair_file} && chmod 640 {material.pair_file}, where GROUP is a group to which "
            "all its readers belong."
        )
        yield TlsStep("mode of the key store", problem, hint, minor=True)


def _convinces(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> TlsStep:
    """Perform an in-memory handshake in which a peer with this configuration calls our servers by this host's name."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    what = f"a client with our trust store accepts our certificate for {host}"
    while sides:
        for each in list(sides):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as fault:
                return TlsStep(what, *_refusal(host, tls_reason(fault), by_server=each.server_side))
            sides.remove(each)
    return TlsStep(what)


def _refusal(host: str, reason: str, *, by_server: bool) -> tuple[str, str]:
    """Return the problem and the next step for a handshake that one side refused."""
    if by_server:
        hint = (
            "Set hadoop.ssl.require.client.cert to true, with a key store in ssl-client.xml whose issuer is in the "
            "trust store of ssl-server.xml, or unset dfs.client.https.need-auth."
        )
        return f"our server refuses a client with our configuration: {reason}", hint
    hint = "Compare the chain and the names of our certificate with the trust store (keytool -list -v)."
    return f"a client with our trust store rejects our certificate for {host}: {reason}", hint


def peers(config: CheckpointConfig) -> list[str]:
    """Return the base URLs of the NameNodes that we call over TLS. The configuration does not contain URLs of
    JournalNodes.
    """
    return [each for each in config.namenode_http_addresses if each.startswith("https:")]


def ask_peer(url: str, *, timeout: float) -> TlsStep:
    """Test a handshake and a GET request with the server at `url`."""
    parts = urlsplit(url)
    connection = connection_for(parts, timeout, lambda: False)
    what = f"handshake with {parts.netloc}"
    try:
        connection.connect()
        what = f"handshake and GET at {parts.netloc}"
        connection.request("GET", _PROBE, headers={"Connection": "close"})
        with connection.raw_answer() as answer:
            if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return TlsStep(what, f"{what}: the response has status {answer.status}", "Check that server's log.")
    except (OSError, http.client.HTTPException) as fault:
        hint = "Check that this server is running, and that its dfs.http.policy includes HTTPS."
        if is_tls_fault(fault):
            hint = "Check the certificate and the trust store."
        return TlsStep(what, f"{what} fails: {network_reason(fault)}", hint)
    finally:
        connection.close()
    return TlsStep(what)
