"""The protocols of the stub's RPC server."""

from __future__ import annotations

from typing import Final

from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.ha_protocol import HA_PROTOCOL
from hadoop_rpc.namenode_protocol import NAMENODE_PROTOCOL
from hadoop_rpc.service import Service
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.administration import Administration
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.rpc.admin import admin_calls
from namenode_stub.rpc.attributes import attribute_changes
from namenode_stub.rpc.caching import caching_calls
from namenode_stub.rpc.changes import file_changes
from namenode_stub.rpc.handlers import OnceOnly
from namenode_stub.rpc.policies import ErasureCodingCalls, storage_policy_changes
from namenode_stub.rpc.reads import Reads
from namenode_stub.rpc.service_switch import ServiceSwitch
from namenode_stub.rpc.snapshot_diffs import SnapshotDiffCalls
from namenode_stub.rpc.snapshots import snapshot_changes
from namenode_stub.server_settings import ServerDefaults

PROTOCOLS: Final = (CLIENT_PROTOCOL.name, NAMENODE_PROTOCOL.name, HA_PROTOCOL.name)


def client_service(
    names: ActiveNamespace,
    administration: Administration,
    cache: RetryCache,
    switch: ServiceSwitch,
    defaults: ServerDefaults,
    pool: str,
) -> Service:
    """Return ClientProtocol with the calls of the release of the namespace's layout; `pool` is the block pool's id."""
    hadoop3, once = names.transactions.namespace.hadoop3, OnceOnly(cache)
    methods = {
        **Reads(names.transactions, defaults, pool).methods(),
        **file_changes(names, once),
        **attribute_changes(names, once, switch),
        **snapshot_changes(names, once, switch),
        **SnapshotDiffCalls(names, hadoop3=hadoop3).methods(),
        **caching_calls(names, once, switch),
        **storage_policy_changes(names, hadoop3=hadoop3),
        **(ErasureCodingCalls(names, once, switch).methods() if hadoop3 else {}),
        **admin_calls(administration, names.transactions, switch, pool),
    }
    return CLIENT_PROTOCOL.served_by(methods)
