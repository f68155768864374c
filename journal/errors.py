"""Errors of the edit log. Each error names the file, the byte offset and the txid if they are known."""

from __future__ import annotations

from typing import ClassVar, Self

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode

_RUNNING = 'If every copy is damaged, do not restart a NameNode that is running: docs/runbook.md, "Gap in the edits".'
_FETCH_WHOLE = f"Use another copy of this segment, from the NameNode or from another journal directory. {_RUNNING}"
_FETCH_AGAIN = f"{_FETCH_WHOLE} `checkpointer edits recover` extracts the operations before the damage."


class JournalError(HdfsError):
    """Root of the edit log's errors. `offset` counts bytes from the start of `file`."""

    exit_code: ClassVar[int] = ExitCode.BAD_EDITS

    def __init__(
        self, problem: str, *, file: str = "", offset: int | None = None, txid: int | None = None, hint: str = ""
    ) -> None:
        super().__init__("", hint=hint)
        self.problem = problem
        self.file = file
        self.offset = offset
        self.txid = txid
        self._describe()

    def locate(self, *, txid: int | None = None, file: str = "") -> Self:
        """Record the location of the error, and return the error; what is omitted stays unchanged."""
        self.txid = self.txid if txid is None else txid
        self.file = file or self.file
        self._describe()
        return self

    def _place(self) -> list[str]:
        where = [self.file] if self.file else []
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        if self.txid is not None:
            where.append(f"txid {self.txid}")
        return where

    def _describe(self) -> None:
        where = self._place()
        self.message = f"{', '.join(where)}: {self.problem}" if where else self.problem
        self.args = (self.message,)


class CorruptHeaderError(JournalError):
    """Lack of a segment's header: the file is too short, or the header was never written."""

    default_hint = _FETCH_WHOLE


class UnsupportedEditsLayoutError(JournalError):
    """Refusal of a segment whose layout version or layout flags are unknown to this program."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED
    default_hint = "Let a NameNode of the release that wrote the edits make the checkpoint."


class CorruptOpError(JournalError):
    """Failure to read an operation that is truncated, does not match its checksum, or cannot be decoded."""

    default_hint = _FETCH_AGAIN


class OpTooLargeError(JournalError):
    """Refusal of a complete operation that is larger than dfs.namenode.max.op.size, as by a NameNode."""

    default_hint = (
        "Set dfs.namenode.max.op.size in hdfs-site.xml to the NameNodes' value, or above the size of this operation, "
        "and specify that configuration with --conf."
    )

    def __init__(
        self, size: int, limit: int, *, file: str = "", offset: int | None = None, txid: int | None = None
    ) -> None:
        problem = f"the operation of {size} bytes is larger than dfs.namenode.max.op.size, {limit}"
        super().__init__(problem, file=file, offset=offset, txid=txid)


class UnreadableOpError(CorruptOpError):
    """Failure to decode an operation with a correct checksum that other software wrote; every copy contains it."""

    default_hint = (
        "The bytes are as they were written, so another copy of the segment does not help. Use a release of this "
        "program that supports this operation."
    )


class UnknownFieldsError(UnreadableOpError):
    """An operation with a correct checksum and a known opcode, but fields or values that no known layout has."""


class UnknownOpcodeError(UnreadableOpError):
    """An operation with a correct checksum, but an opcode that no supported release writes."""

    def __init__(self, opcode: int, *, file: str = "", offset: int | None = None, txid: int | None = None) -> None:
        super().__init__(f"unknown opcode {opcode} (0x{opcode:02x})", file=file, offset=offset, txid=txid)
        self.opcode = opcode


FOREIGN_OP_HINT = (
    "NameNodes do not write this operation after this header: the header was changed, or segments of two releases "
    "were joined. Compare the file with the same segment of the NameNode or of a JournalNode, and specify that segment."
)


class OtherLayoutOpError(UnreadableOpError):
    """An operation with a correct checksum, but with the fields of a layout other than the layout in the header.

    The default hint is for operations of Hadoop 3 in a segment with a header of Hadoop 2.
    """

    default_hint = (
        "The bytes are as they were written, so another copy of the segment does not help. Hadoop 3 NameNodes write "
        "such operations during a rolling upgrade from Hadoop 2 (HDFS-13596), and cannot read them after a restart. "
        'Keep that NameNode running, and see docs/runbook.md, "Operations of Hadoop 3 in a log of Hadoop 2".'
    )


class EditsTextError(CorruptOpError):
    """Refusal of XML or JSON that is not an edit log, or has an unreadable operation; the first `line` is 1."""

    default_hint = "Correct the text at the named line, or dump the segment again."

    def __init__(
        self, problem: str, *, line: int | None = None, file: str = "", txid: int | None = None, hint: str = ""
    ) -> None:
        self.line = line
        super().__init__(problem, file=file, txid=txid, hint=hint)

    def in_file(self, file: str, *, line: int | None = None, txid: int | None = None) -> Self:
        """Add the file to this error, and the line and txid unless the error contains them; return the error."""
        self.file = file
        self.line = self.line if self.line is not None else line
        self.txid = self.txid if self.txid is not None else txid
        self._describe()
        return self

    def _place(self) -> list[str]:
        where = super()._place()
        if self.line is not None:
            where.insert(1 if self.file else 0, f"line {self.line}")
        return where


class OpEncodingError(JournalError):
    """Failure to encode a value of an operation in its field."""

    default_hint = "Correct the value of the named operation; nothing was written."


class TransactionGapError(JournalError):
    """Detection of missing transactions, or of transactions out of order. `found` is None if none follows."""

    default_hint = "Fetch the missing transactions from the NameNode or from another journal directory."

    def __init__(
        self, expected: int, found: int | None, *, problem: str = "", file: str = "", offset: int | None = None
    ) -> None:
        if not problem:
            problem = "out of order" if found is not None and found < expected else "gap in the edit log"
            problem += f": expected txid {expected}, found {'no further transaction' if found is None else found}"
        super().__init__(problem, file=file, offset=offset, txid=found)
        self.expected = expected
        self.found = found


class SegmentError(JournalError):
    """A contradiction between a segment and its name or its state."""

    default_hint = _FETCH_AGAIN


def is_damage(fault: BaseException) -> bool:
    """Return whether a fault is damage to a segment; False if every copy of the segment has the fault, and an operator
    must act.
    """
    damages = (CorruptHeaderError, CorruptOpError, SegmentError)
    return isinstance(fault, damages) and not isinstance(fault, UnreadableOpError)


class JournalStorageError(JournalError):
    """Failure of a journal's storage, or of the last journal in a set; `__cause__` is the last failure."""

    exit_code: ClassVar[int] = ExitCode.STORAGE
    default_hint = (
        "Repair the disk of the edits directory, or free space on it, then start again. Recovery keeps all synced data."
    )


class JournalExistsError(JournalError):
    """Refusal to create a journal that already exists; the existing journal is unchanged."""

    exit_code: ClassVar[int] = ExitCode.STORAGE
    default_hint = "Specify another location. Formatting this journal by force deletes all its edits."


class JournalInUseError(JournalError):
    """Refusal to use a journal that another writer uses, or that has an open segment."""

    exit_code: ClassVar[int] = ExitCode.STORAGE
    default_hint = "A journal can have only one writer at a time: wait until the other writer has ended its segment."
