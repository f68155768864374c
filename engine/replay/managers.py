"""What stands beside the tree: tokens, caches, erasure coding, upgrades, segment markers."""

from __future__ import annotations

from engine.namespace import Namespace
from engine.replay.registry import handles
from image_format.proto import fsimage_pb2 as pb
from journal import ops

_UINT64 = (1 << 64) - 1


@handles(ops.StartLogSegmentOp, ops.EndLogSegmentOp)
def _segment_marker(namespace: Namespace, op: ops.EditOp) -> None:
    """Markers only advance the txid."""


@handles(ops.UpdateMasterKeyOp)
def _update_master_key(namespace: Namespace, op: ops.UpdateMasterKeyOp) -> None:
    namespace.secrets.update_master_key(op.key)


@handles(ops.GetDelegationTokenOp)
def _get_token(namespace: Namespace, op: ops.GetDelegationTokenOp) -> None:
    namespace.secrets.add_token(op.token, op.expiry_time)


@handles(ops.RenewDelegationTokenOp)
def _renew_token(namespace: Namespace, op: ops.RenewDelegationTokenOp) -> None:
    namespace.secrets.renew_token(op.token, op.expiry_time)


@handles(ops.CancelDelegationTokenOp)
def _cancel_token(namespace: Namespace, op: ops.CancelDelegationTokenOp) -> None:
    namespace.secrets.cancel_token(op.token)


@handles(ops.AddCachePoolOp)
def _add_cache_pool(namespace: Namespace, op: ops.AddCachePoolOp) -> None:
    namespace.caches.add_pool(op.pool)


@handles(ops.ModifyCachePoolOp)
def _modify_cache_pool(namespace: Namespace, op: ops.ModifyCachePoolOp) -> None:
    namespace.caches.modify_pool(op.pool)


@handles(ops.RemoveCachePoolOp)
def _remove_cache_pool(namespace: Namespace, op: ops.RemoveCachePoolOp) -> None:
    namespace.caches.remove_pool(op.pool_name)


@handles(ops.AddCacheDirectiveOp)
def _add_cache_directive(namespace: Namespace, op: ops.AddCacheDirectiveOp) -> None:
    namespace.caches.add_directive(op.directive)


@handles(ops.ModifyCacheDirectiveOp)
def _modify_cache_directive(namespace: Namespace, op: ops.ModifyCacheDirectiveOp) -> None:
    namespace.caches.modify_directive(op.directive)


@handles(ops.RemoveCacheDirectiveOp)
def _remove_cache_directive(namespace: Namespace, op: ops.RemoveCacheDirectiveOp) -> None:
    namespace.caches.remove_directive(op.id)


@handles(ops.AddErasureCodingPolicyOp)
def _add_policy(namespace: Namespace, op: ops.AddErasureCodingPolicyOp) -> None:
    namespace.erasure_coding.add(op)


@handles(ops.EnableErasureCodingPolicyOp)
def _enable_policy(namespace: Namespace, op: ops.EnableErasureCodingPolicyOp) -> None:
    namespace.erasure_coding.set_state(op.policy_name, pb.ENABLED)


@handles(ops.DisableErasureCodingPolicyOp)
def _disable_policy(namespace: Namespace, op: ops.DisableErasureCodingPolicyOp) -> None:
    namespace.erasure_coding.set_state(op.policy_name, pb.DISABLED)


@handles(ops.RemoveErasureCodingPolicyOp)
def _remove_policy(namespace: Namespace, op: ops.RemoveErasureCodingPolicyOp) -> None:
    namespace.erasure_coding.set_state(op.policy_name, pb.REMOVED)


@handles(ops.RollingUpgradeStartOp)
def _rolling_upgrade_start(namespace: Namespace, op: ops.RollingUpgradeStartOp) -> None:
    namespace.info.rollingUpgradeStartTime = op.time & _UINT64


@handles(ops.RollingUpgradeFinalizeOp)
def _rolling_upgrade_finalize(namespace: Namespace, op: ops.RollingUpgradeFinalizeOp) -> None:
    namespace.info.ClearField("rollingUpgradeStartTime")
