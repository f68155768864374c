"""Kerberos settings of the servers of a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.access import AccessPolicy
from hadoop_rpc.auth_to_local import NameRules
from hadoop_rpc.kerberos import ServiceKey
from hadoop_rpc.security import Protection


@dataclass(frozen=True, slots=True)
class ServerKerberos:
    """Configured settings, before keytabs and the secret are read.

    Attributes:
        rpc, http: keys of the servers; the principal of `rpc` is the identity of the process.
        protections: protections of RPC.
        rules: rules for short names, without the default realm, which only the system knows.
        policies: access policy of each resource.
        secret_file: file with the secret that signs cookies; None to use a random secret.
        validity: validity of cookies, in seconds.
        open_paths: paths of the web server without authentication.
    """

    rpc: ServiceKey
    http: ServiceKey
    protections: tuple[Protection, ...]
    rules: NameRules
    policies: Mapping[str, AccessPolicy]
    secret_file: Path | None
    validity: float
    open_paths: frozenset[str]
