"""Erasure coding policies: the ERASURE_CODING section of Hadoop 3."""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import NamespaceError, UnsupportedNamespaceError
from image_format.index import ImageIndex
from image_format.messages import MessageReader
from image_format.policies import BUILT_IN, ErasurePolicy
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from journal.ops import AddErasureCodingPolicyOp

_SECTION = "ERASURE_CODING"
_LAST_SYSTEM_ID = 63
_KIBI = 1024
REPLICATION_POLICY_ID = 0


class ErasureCodingPolicy(NamedTuple):
    """A policy in full; `cell_size` in bytes, `options` are pairs of name and value."""

    id: int
    name: str
    codec: str
    data_units: int
    parity_units: int
    options: tuple[tuple[str, str], ...]
    cell_size: int
    state: pb.ErasureCodingPolicyState

    @property
    def is_system(self) -> bool:
        """Whether it is built in."""
        return self.id <= _LAST_SYSTEM_ID


def policy_name(codec: str, data_units: int, parity_units: int, cell_size: int) -> str:
    """Return Hadoop's name of a policy, for example RS-6-3-1024k; the cell size is in bytes."""
    return f"{codec.upper()}-{data_units}-{parity_units}-{cell_size // _KIBI}k"


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

    def policies(self) -> list[ErasureCodingPolicy]:
        """Return all policies, including removed ones, in the order of the section."""
        return [self._whole(policy) for policy in self._section.policies]

    def by_id(self, policy_id: int) -> ErasureCodingPolicy | None:
        found = self._by_id.get(policy_id)
        return None if found is None else self._whole(found)

    def _whole(self, policy: pb.ErasureCodingPolicyProto) -> ErasureCodingPolicy:
        codec, data_units, parity_units, options, cell_size = self._shape(policy)
        return ErasureCodingPolicy(
            policy.id, self._name(policy), codec, data_units, parity_units, options, cell_size, policy.state
        )

    @staticmethod
    def _built_in(policy: pb.ErasureCodingPolicyProto) -> ErasurePolicy:
        found = BUILT_IN.get(policy.id)
        if found is None:
            raise UnsupportedNamespaceError(f"erasure coding policy {policy.id} has no schema and is not a known one")
        return found

    def _name(self, policy: pb.ErasureCodingPolicyProto) -> str:
        return policy.name if policy.HasField("name") else self._built_in(policy).name

    def _shape(self, policy: pb.ErasureCodingPolicyProto) -> tuple[str, int, int, tuple[tuple[str, str], ...], int]:
        """Return (codec, data units, parity units, options, cell size)."""
        if not policy.HasField("schema"):
            known = self._built_in(policy)
            return known.codec, known.data_units, known.parity_units, known.options, known.cell_size
        schema = policy.schema
        options = tuple((option.key, option.value) for option in schema.options)
        return schema.codecName, schema.dataUnits, schema.parityUnits, options, policy.cellSize

    def add(self, op: AddErasureCodingPolicyOp) -> bool:
        """Add a policy; return False if its name, or its schema and cell size, are known."""
        name = policy_name(op.codec_name, op.data_units, op.parity_units, op.cell_size)
        shape = (op.codec_name, op.data_units, op.parity_units, sorted(op.extra_options), op.cell_size)
        for policy in self._section.policies:
            codec, data_units, parity_units, options, cell_size = self._shape(policy)
            if self._name(policy) == name or (codec, data_units, parity_units, sorted(options), cell_size) == shape:
                return False
        policy = self._section.policies.add(
            id=max([_LAST_SYSTEM_ID, *self._by_id]) + 1, name=name, cellSize=op.cell_size, state=pb.DISABLED
        )
        policy.schema.codecName = op.codec_name
        policy.schema.dataUnits = op.data_units
        policy.schema.parityUnits = op.parity_units
        for key, value in op.extra_options:
            policy.schema.options.add(key=key, value=value)
        self._by_id[policy.id] = policy
        self.changed = True
        return True

    def set_state(self, name: str, state: pb.ErasureCodingPolicyState) -> None:
        """Enable, disable or remove a policy; a removed one stays in the list.

        Raises:
            NamespaceError: the policy does not exist, or is built in and cannot be removed.
        """
        policy = next((p for p in self._section.policies if self._name(p) == name), None)
        if policy is None:
            raise NamespaceError(f"erasure coding policy {name} does not exist")
        if state == pb.REMOVED and policy.id <= _LAST_SYSTEM_ID:
            raise NamespaceError(f"erasure coding policy {name} is built in and cannot be removed")
        policy.state = state
        self.changed = True

    def encode(self) -> bytes:
        return encode_delimited(self._section)
