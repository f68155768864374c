"""Operations outside the tree: tokens, caches, erasure coding, upgrades, segment markers."""

from __future__ import annotations

from engine.errors import NamespaceError
from engine.namespace import Namespace
from hadoop_common.java_numbers import unsigned64
from image_format.layout import LayoutVersion
from image_format.proto import fsimage_pb2 as pb
from journal import ops


def segment_marker(namespace: Namespace, op: ops.EditOp) -> None:
    """Do nothing: a marker only advances the txid."""


def update_master_key(namespace: Namespace, op: ops.UpdateMasterKeyOp) -> None:
    namespace.secrets.update_master_key(op.key)


def get_token(namespace: Namespace, op: ops.GetDelegationTokenOp) -> None:
    if not namespace.secrets.add_token(op.token, op.expiry_time):
        namespace.ignore()


def renew_token(namespace: Namespace, op: ops.RenewDelegationTokenOp) -> None:
    if not namespace.secrets.renew_token(op.token, op.expiry_time):
        namespace.ignore()


def cancel_token(namespace: Namespace, op: ops.CancelDelegationTokenOp) -> None:
    if not namespace.secrets.cancel_token(op.token):
        namespace.ignore()


def add_cache_pool(namespace: Namespace, op: ops.AddCachePoolOp) -> None:
    namespace.caches.add_pool(op.pool)


def modify_cache_pool(namespace: Namespace, op: ops.ModifyCachePoolOp) -> None:
    namespace.caches.modify_pool(op.pool)


def remove_cache_pool(namespace: Namespace, op: ops.RemoveCachePoolOp) -> None:
    namespace.caches.remove_pool(op.pool_name)


def add_cache_directive(namespace: Namespace, op: ops.AddCacheDirectiveOp) -> None:
    namespace.caches.add_directive(op.directive)


def modify_cache_directive(namespace: Namespace, op: ops.ModifyCacheDirectiveOp) -> None:
    namespace.caches.modify_directive(op.directive)


def remove_cache_directive(namespace: Namespace, op: ops.RemoveCacheDirectiveOp) -> None:
    namespace.caches.remove_directive(op.id)


def _require_policies(namespace: Namespace) -> None:
    namespace.require(LayoutVersion.ERASURE_CODING, "an erasure coding policy")


def add_policy(namespace: Namespace, op: ops.AddErasureCodingPolicyOp) -> None:
    _require_policies(namespace)
    if not namespace.erasure_coding.add(op):
        namespace.ignore()


def enable_policy(namespace: Namespace, op: ops.EnableErasureCodingPolicyOp) -> None:
    _require_policies(namespace)
    namespace.erasure_coding.set_state(op.policy_name, pb.ENABLED)


def disable_policy(namespace: Namespace, op: ops.DisableErasureCodingPolicyOp) -> None:
    _require_policies(namespace)
    namespace.erasure_coding.set_state(op.policy_name, pb.DISABLED)


def remove_policy(namespace: Namespace, op: ops.RemoveErasureCodingPolicyOp) -> None:
    _require_policies(namespace)
    namespace.erasure_coding.set_state(op.policy_name, pb.REMOVED)


def rolling_upgrade_start(namespace: Namespace, op: ops.RollingUpgradeStartOp) -> None:
    """Start a rolling upgrade, even if the image contains a rolling upgrade in progress.

    A NameNode ignores the rolling upgrade in an image unless a rollback image exists next to it. If an upgrade is
    rolled back to an image that contains its start, the edits do not record the rollback.

    Raises:
        NamespaceError: earlier edits started a rolling upgrade that is not finalized.
    """
    if namespace.upgrade_started:
        raise NamespaceError("an earlier rolling upgrade is not finalized")
    namespace.upgrade_started = namespace.upgrade_seen = True
    namespace.info.rollingUpgradeStartTime = unsigned64(op.time)


def rolling_upgrade_finalize(namespace: Namespace, op: ops.RollingUpgradeFinalizeOp) -> None:
    if not namespace.info.HasField("rollingUpgradeStartTime"):
        namespace.ignore()
    namespace.upgrade_started, namespace.upgrade_seen = False, True
    namespace.info.ClearField("rollingUpgradeStartTime")
