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
from namenode_stub.rpc.admin import AdminCalls
from namenode_stub.rpc.attributes import AttributeChanges
from namenode_stub.rpc.caching import CachingCalls
from namenode_stub.rpc.changes import Changes
from namenode_stub.rpc.policies import ErasureCodingCalls, StoragePolicyCalls
from namenode_stub.rpc.reads import Reads
from namenode_stub.rpc.service_switch import ServiceSwitch
from namenode_stub.rpc.snapshot_diffs import SnapshotDiffCalls
from namenode_stub.rpc.snapshots import SnapshotCalls
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
    hadoop3 = names.transactions.namespace.hadoop3
    methods = {
        **Reads(names.views, defaults, pool).methods(),
        **Changes(names, cache, pool).methods(),
        **AttributeChanges(names, cache, switch).methods(),
        **SnapshotCalls(names, cache, switch).methods(),
        **SnapshotDiffCalls(names, hadoop3=hadoop3).methods(),
        **CachingCalls(names, cache, switch).methods(),
        **StoragePolicyCalls(names, hadoop3=hadoop3).methods(),
        **(ErasureCodingCalls(names, cache, switch).methods() if hadoop3 else {}),
        **AdminCalls(administration, names.transactions, switch, pool, hadoop3=hadoop3).methods(),
    }
    return CLIENT_PROTOCOL.served_by(methods)
