"""The environment of a fencing command: the configuration as the NameNode to be fenced reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from failover.target import Target, java_address
from hadoop_common.configuration import Configuration
from site_config.catalogue import CATALOGUE
from site_config.changed_keys import texts
from site_config.keys import DEFAULT_FS, HA_NAMENODE_ID, NAMESERVICE_ID, RPC_ADDRESS, SERVICERPC_ADDRESS


def fencing_environment(configuration: Configuration, target: Target, *, moved: bool = False) -> dict[str, str]:
    """Return the configuration as environment variables, together with the variables of `target` (ShellCommandFencer).

    Each key appears with `_` for `.`, as before Hadoop 3.5, and with `_` for `.` and `-`, as in Hadoop 3.5. A key that
    is set only for the target's nameservice or NameNode also appears without that suffix.

    Args:
        moved: whether the configuration does not list `target` at its address. Then the keys for RPC addresses without
            a suffix have this address, because the configured addresses lead to another host.
    """
    view = {key.name: key.default for key in CATALOGUE if key.default} | texts(configuration)
    view |= _own(view, target.nameservice) | _own(view, f"{target.nameservice}.{target.namenode}")
    if moved:
        view |= dict.fromkeys((RPC_ADDRESS.name, SERVICERPC_ADDRESS.name), target.address)
    # with a service RPC address, which is the target's address, clients still use the RPC address
    clients = view.get(RPC_ADDRESS.name) if view.get(SERVICERPC_ADDRESS.name) else None
    view |= {
        NAMESERVICE_ID.name: target.nameservice,
        HA_NAMENODE_ID.name: target.namenode,
        DEFAULT_FS.name: f"hdfs://{clients or target.address}",
    }
    given = {key: value for key, value in view.items() if "=" not in key and "\0" not in key + value}
    found = {re.sub("[.-]", "_", key): value for key, value in given.items()}
    found |= {key.replace(".", "_"): value for key, value in given.items()}
    return found | {
        "target_host": target.name,
        "target_port": str(target.port),
        "target_address": java_address(target.name, target.port),
        "target_nameserviceid": target.nameservice,
        "target_namenodeid": target.namenode,
    }


def _own(view: Mapping[str, str], suffix: str) -> dict[str, str]:
    return {key.removesuffix(f".{suffix}"): value for key, value in view.items() if key.endswith(f".{suffix}")}
