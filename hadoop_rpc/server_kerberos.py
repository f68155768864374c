"""How the servers of a process take logins by Kerberos, as the configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.access import Admission
from hadoop_rpc.auth_to_local import NameRules
from hadoop_rpc.kerberos import ServiceKey
from hadoop_rpc.security import Protection


@dataclass(frozen=True, slots=True)
class ServerKerberos:
    """Nothing of it was tried yet.

    Attributes:
        rpc, http: their keys; the principal of the first is who the process is.
        protections: of RPC.
        rules: of short names, yet without the realm that only the system knows.
        doors: who may pass which.
        secret_file: with what signs cookies; None for something random.
        validity: of cookies, seconds.
        open_paths: what everybody may ask the web server for.
    """

    rpc: ServiceKey
    http: ServiceKey
    protections: tuple[Protection, ...]
    rules: NameRules
    doors: Mapping[str, Admission]
    secret_file: Path | None
    validity: float
    open_paths: frozenset[str]
