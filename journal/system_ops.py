"""Operations on state outside the directory tree (FSEditLogOp): generation stamps, block ids, tokens, caches, erasure
coding, segment and upgrade markers.
"""

from __future__ import annotations

from journal.file_ops import RetryCacheOp
from journal.kinds import INT, LONG, STR
from journal.operation import EditOp, field, operation
from journal.record_kinds import CACHE_DIRECTIVE, CACHE_POOL, DELEGATION_KEY, DELEGATION_TOKEN, EXTRA_OPTIONS
from journal.values import CacheDirectiveInfo, CachePoolInfo, DelegationKey, DelegationTokenIdent


@operation(24, "OP_START_LOG_SEGMENT")
class StartLogSegmentOp(EditOp):
    """The first operation of every segment."""


@operation(23, "OP_END_LOG_SEGMENT")
class EndLogSegmentOp(EditOp):
    """The last operation of a properly closed segment."""


@operation(10, "OP_SET_GENSTAMP_V1")
class SetGenstampV1Op(EditOp):
    genstamp: int = field(LONG, xml="GENSTAMP")


@operation(31, "OP_SET_GENSTAMP_V2")
class SetGenstampV2Op(EditOp):
    genstamp: int = field(LONG, xml="GENSTAMPV2")


@operation(32, "OP_ALLOCATE_BLOCK_ID")
class AllocateBlockIdOp(EditOp):
    block_id: int = field(LONG, xml="BLOCK_ID")


@operation(18, "OP_GET_DELEGATION_TOKEN")
class GetDelegationTokenOp(EditOp):
    """A new delegation token; `expiry_time` is in ms since the epoch."""

    token: DelegationTokenIdent = field(DELEGATION_TOKEN, xml="DELEGATION_TOKEN_IDENTIFIER")
    expiry_time: int = field(LONG, xml="EXPIRY_TIME")


@operation(19, "OP_RENEW_DELEGATION_TOKEN")
class RenewDelegationTokenOp(EditOp):
    """The renewal of a delegation token; `expiry_time` is in ms since the epoch."""

    token: DelegationTokenIdent = field(DELEGATION_TOKEN, xml="DELEGATION_TOKEN_IDENTIFIER")
    expiry_time: int = field(LONG, xml="EXPIRY_TIME")


@operation(20, "OP_CANCEL_DELEGATION_TOKEN")
class CancelDelegationTokenOp(EditOp):
    token: DelegationTokenIdent = field(DELEGATION_TOKEN, xml="DELEGATION_TOKEN_IDENTIFIER")


@operation(21, "OP_UPDATE_MASTER_KEY")
class UpdateMasterKeyOp(EditOp):
    key: DelegationKey = field(DELEGATION_KEY, xml="DELEGATION_KEY")


@operation(34, "OP_ADD_CACHE_DIRECTIVE")
class AddCacheDirectiveOp(RetryCacheOp):
    directive: CacheDirectiveInfo = field(CACHE_DIRECTIVE, xml="ID")


@operation(39, "OP_MODIFY_CACHE_DIRECTIVE")
class ModifyCacheDirectiveOp(RetryCacheOp):
    directive: CacheDirectiveInfo = field(CACHE_DIRECTIVE, xml="ID")


@operation(35, "OP_REMOVE_CACHE_DIRECTIVE")
class RemoveCacheDirectiveOp(RetryCacheOp):
    id: int = field(LONG, xml="ID")


@operation(36, "OP_ADD_CACHE_POOL")
class AddCachePoolOp(RetryCacheOp):
    pool: CachePoolInfo = field(CACHE_POOL, xml="POOLNAME")


@operation(37, "OP_MODIFY_CACHE_POOL")
class ModifyCachePoolOp(RetryCacheOp):
    pool: CachePoolInfo = field(CACHE_POOL, xml="POOLNAME")


@operation(38, "OP_REMOVE_CACHE_POOL")
class RemoveCachePoolOp(RetryCacheOp):
    pool_name: str = field(STR, xml="POOLNAME")


@operation(41, "OP_ROLLING_UPGRADE_START")
class RollingUpgradeStartOp(EditOp):
    """The start of a rolling upgrade; `time` is in ms since the epoch."""

    time: int = field(LONG, xml="STARTTIME")


@operation(42, "OP_ROLLING_UPGRADE_FINALIZE")
class RollingUpgradeFinalizeOp(EditOp):
    """The end of a rolling upgrade; `time` is in ms since the epoch."""

    time: int = field(LONG, xml="FINALIZETIME")


@operation(49, "OP_ADD_ERASURE_CODING_POLICY", since=-64)
class AddErasureCodingPolicyOp(RetryCacheOp):
    """A new erasure coding policy; `cell_size` is in bytes, `extra_options` are pairs of name and value."""

    codec_name: str = field(STR, xml="CODEC")
    data_units: int = field(INT, xml="DATAUNITS")
    parity_units: int = field(INT, xml="PARITYUNITS")
    cell_size: int = field(INT, xml="CELLSIZE")
    extra_options: tuple[tuple[str, str], ...] = field(EXTRA_OPTIONS, xml="EXTRAOPTION", default=())


@operation(50, "OP_ENABLE_ERASURE_CODING_POLICY", since=-64)
class EnableErasureCodingPolicyOp(RetryCacheOp):
    policy_name: str = field(STR, xml="POLICYNAME")


@operation(51, "OP_DISABLE_ERASURE_CODING_POLICY", since=-64)
class DisableErasureCodingPolicyOp(RetryCacheOp):
    policy_name: str = field(STR, xml="POLICYNAME")


@operation(52, "OP_REMOVE_ERASURE_CODING_POLICY", since=-64)
class RemoveErasureCodingPolicyOp(RetryCacheOp):
    policy_name: str = field(STR, xml="POLICYNAME")
