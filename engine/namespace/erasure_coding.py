"""Erasure coding policies: the ERASURE_CODING section of Hadoop 3."""

from __future__ import annotations

from engine.errors import NamespaceError, UnsupportedNamespaceError
from engine.namespace.op_paths import encodable
from image_format.erasure_policies import BUILT_IN, LAST_SYSTEM_ID, ErasurePolicy, described_policy
from image_format.index import ImageIndex
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from journal.ops import AddErasureCodingPolicyOp

_SECTION = "ERASURE_CODING"
_KIBI = 1024
# HdfsServerConstants.MAX_BLOCKS_IN_GROUP, which ErasureCodingPolicyManager.addPolicy checks
_MAX_UNITS = 16
REPLICATION_POLICY_ID = 0


def policy_name(codec: str, data_units: int, parity_units: int, cell_size: int) -> str:
    """Return Hadoop's name of a policy, for example RS-6-3-1024k; the cell size is in bytes."""
    return f"{codec.upper()}-{data_units}-{parity_units}-{cell_size // _KIBI}k"


def is_same_policy(held: ErasurePolicy, wanted: ErasurePolicy) -> bool:
    """Return whether a policy matches a wanted policy by the name that HDFS gives it, or by schema and cell size."""
    shapes = [(each.codec, each.data_units, each.parity_units, each.cell_size) for each in (held, wanted)]
    return held.name == policy_name(*shapes[1]) or (
        shapes[0] == shapes[1] and sorted(held.options) == sorted(wanted.options)
    )


class ErasureCodingPolicies:
    """Erasure coding policies with their states (`fsimage.proto ErasureCodingSection`)."""

    def __init__(self, base: ImageIndex) -> None:
        reader = MessageReader(base.section(_SECTION), base.place(_SECTION))
        section = pb.ErasureCodingSection() if reader.done else reader.read(pb.ErasureCodingSection)
        reader.finish()
        self._section = section
        self._by_id = {policy.id: policy for policy in section.policies}
        self.changed = False

    def knows(self, policy_id: int) -> bool:
        return policy_id in self._by_id

    def policies(self) -> list[ErasurePolicy]:
        """Return all policies, including removed policies, in the order of the section."""
        return [self._whole(policy) for policy in self._section.policies]

    def by_id(self) -> dict[int, ErasurePolicy]:
        return {policy.id: policy for policy in self.policies()}

    @property
    def count(self) -> int:
        return len(self._section.policies)

    @staticmethod
    def _built_in(policy: pb.ErasureCodingPolicyProto) -> ErasurePolicy:
        found = BUILT_IN.get(policy.id)
        if found is None:
            raise UnsupportedNamespaceError(f"erasure coding policy {policy.id} is unknown and has no schema")
        return found

    def _name(self, policy: pb.ErasureCodingPolicyProto) -> str:
        return policy.name if policy.HasField("name") else self._built_in(policy).name

    def _whole(self, policy: pb.ErasureCodingPolicyProto) -> ErasurePolicy:
        found = described_policy(policy) if policy.HasField("schema") else self._built_in(policy)
        return found._replace(name=self._name(policy), state=policy.state)

    def add(self, op: AddErasureCodingPolicyOp) -> bool:
        """Add a policy; return False if a policy with this name, or with this schema and cell size, already exists.

        Raises:
            NamespaceError: its block groups are too large, or its cells are not positive multiples of 1 KiB
                (ErasureCodingPolicy's constructor), so no NameNode would load the image.
        """
        if op.cell_size <= 0 or op.cell_size % _KIBI:
            raise NamespaceError(
                f"an erasure coding policy has cells of {op.cell_size} bytes, which is not a multiple of {_KIBI}"
            )
        units = op.data_units, op.parity_units
        if sum(units) > _MAX_UNITS:
            raise NamespaceError(f"an erasure coding policy has {sum(units)} units, above the maximum {_MAX_UNITS}")
        name = policy_name(op.codec_name, *units, op.cell_size)
        options = tuple((encodable(key), encodable(value)) for key, value in op.extra_options)
        wanted = ErasurePolicy(name, op.codec_name, *units, op.cell_size, options)
        if any(is_same_policy(policy, wanted) for policy in self.policies()):
            return False
        policy = self._section.policies.add(
            id=max([LAST_SYSTEM_ID, *self._by_id]) + 1, name=name, cellSize=op.cell_size, state=pb.DISABLED
        )
        policy.schema.codecName = op.codec_name
        policy.schema.dataUnits = op.data_units
        policy.schema.parityUnits = op.parity_units
        for key, value in options:
            policy.schema.options.add(key=key, value=value)
        self._by_id[policy.id] = policy
        self.changed = True
        return True

    def set_state(self, name: str, state: pb.ErasureCodingPolicyState) -> None:
        """Enable, disable or remove a policy; a removed policy stays in the list.

        Raises:
            NamespaceError: the policy does not exist, or is built in and cannot be removed.
        """
        policy = next((p for p in self._section.policies if self._name(p) == name), None)
        if policy is None:
            raise NamespaceError(f"erasure coding policy {name} does not exist")
        if state == pb.REMOVED and policy.id <= LAST_SYSTEM_ID:
            raise NamespaceError(f"erasure coding policy {name} is built in and cannot be removed")
        policy.state = state
        self.changed = True

    def encode(self) -> bytes:
        return encode_delimited(self._section)
