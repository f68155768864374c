"""Declaration of operations: `EditOp`, `operation` and `field`. The codecs are derived from the declarations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

from journal.kinds import FieldGroup, FieldKind

INVALID_TXID = -12345
_SPEC = "edit_op_field"
_OpT = TypeVar("_OpT", bound="EditOp")
_declared: dict[int, type[EditOp]] = {}


class XmlConstant(NamedTuple):
    """An element that OEV writes without a corresponding field."""

    tag: str
    text: str


@dataclass(frozen=True, slots=True)
class OpField:
    """A declared field: its attribute, kind, XML tag, and the layout version that introduced it.

    `since` is None for a field that every layout contains. `values_since` maps each possible value to the layout that
    added the value, or to None for a value as old as the field; an empty map allows every value. `part` combines
    consecutive fields that share an encoding.
    """

    name: str
    kind: FieldKind
    tag: str | None
    since: int | None
    part: FieldGroup | None
    default: Any
    values_since: Mapping[int, int | None]

    @property
    def has_default(self) -> bool:
        return self.default is not dataclasses.MISSING

    def present_in(self, layout_version: int) -> bool:
        return self.since is None or layout_version <= self.since


def field(
    kind: FieldKind,
    *,
    xml: str | None = None,
    since: int | None = None,
    part: FieldGroup | None = None,
    default: Any = dataclasses.MISSING,
    values_since: Mapping[int, int | None] = MappingProxyType({}),
) -> Any:
    """Declare a field of an operation; the declarations are in the order of the bytes.

    Args:
        kind: codecs of the field.
        xml: OEV tag; None if OEV omits the field.
        since: first layout version whose bytes contain the field; in older layouts, the value is `default`.
        part: encoding that this field shares with neighbouring fields of the same `part`.
        default: value of the field if the constructor does not receive one. Without a default, the constructor requires
            a value.
        values_since: the possible values, each with the first layout version whose releases support it, or None for
            a value as old as the field; empty if every value is possible.
    """
    spec = OpField("", kind, xml, since, part, default, values_since)
    return dataclasses.field(default=default, metadata={_SPEC: spec})


@dataclass(slots=True, kw_only=True)
class EditOp:
    """Base of all edit log operations.

    `txid` is INVALID_TXID until a txid is assigned. `offset` is the position of the opcode in its file, or -1 for an
    operation that was not read from a file; comparisons ignore the offset.
    """

    opcode: ClassVar[int] = -1
    name: ClassVar[str] = ""
    since: ClassVar[int | None] = None
    written: ClassVar[bool] = True
    fields: ClassVar[tuple[OpField, ...]] = ()
    xml_items: ClassVar[tuple[OpField | XmlConstant, ...]] = ()

    txid: int = INVALID_TXID
    offset: int = dataclasses.field(default=-1, compare=False, repr=False)

    def __repr__(self) -> str:
        """Return the fields in the order of the file.

        `provenance.json` contains digests of this string (`engine.txn_runs`), so the string must stay the same in all
        releases.
        """
        parts = (f"{name}={getattr(self, name)!r}" for name in ("txid", *(item.name for item in self.fields)))
        return f"{type(self).__qualname__}({', '.join(parts)})"

    @classmethod
    def present_in(cls, layout_version: int) -> bool:
        """Return whether logs of `layout_version` may contain this operation."""
        return cls.since is None or layout_version <= cls.since


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def operation(
    opcode: int,
    name: str,
    *,
    since: int | None = None,
    written: bool = True,
    xml: tuple[str | XmlConstant, ...] | None = None,
) -> Callable[[type[_OpT]], type[_OpT]]:
    """Return a decorator that makes a class the declaration of `opcode`.

    Args:
        opcode: the byte in the file.
        name: name in FSEditLogOpCodes.
        since: first layout version with this operation; None if all supported layouts have the operation.
        written: False for an operation that Hadoop 2 and 3 read in old logs, but never write.
        xml: order of attributes and constant elements in OEV XML, if it differs from the order of the bytes.
    """

    def declare(cls: type[_OpT]) -> type[_OpT]:
        declared = dataclass(slots=True, kw_only=True, repr=False)(cls)
        # In the file, inherited fields follow the fields of the class itself.
        ordered = sorted(dataclasses.fields(declared), key=lambda item: item.name not in cls.__annotations__)
        fields = tuple(
            dataclasses.replace(item.metadata[_SPEC], name=item.name) for item in ordered if _SPEC in item.metadata
        )
        by_name = {item.name: item for item in fields}
        declared.opcode = opcode
        declared.name = name
        declared.since = since
        declared.written = written
        declared.fields = fields
        declared.xml_items = tuple(
            item if isinstance(item, XmlConstant) else by_name[item]
            for item in (xml if xml is not None else tuple(by_name))
        )
        if opcode in _declared:
            raise ValueError(f"opcode {opcode} is declared as {_declared[opcode].name} and as {name}")
        _declared[opcode] = declared
        return declared

    return declare


def declared_operations() -> dict[int, type[EditOp]]:
    """Return the classes of the operations declared so far, by opcode."""
    return dict(_declared)
