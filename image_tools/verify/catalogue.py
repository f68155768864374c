"""Codes of findings: each with its severity, its meaning, and its repair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding.

    ERROR: a NameNode refuses the image, or loses or misplaces data. WARNING: no data is lost. INFO: the state is
    unusual.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class FindingCode:
    """A kind of finding.

    Attributes:
        name: stable name in lower case with hyphens.
        severity: default severity.
        meaning: description in one line.
        repair: action of `repair_image`; "" if it cannot repair the finding (an error then prevents the repair of the
            image).
    """

    name: str
    severity: Severity
    meaning: str
    repair: str


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO
_ROWS: tuple[tuple[str, Severity, str, str], ...] = (
    # the file
    ("frame-magic", _E, "the file does not start with HDFSIMG1", ""),
    ("frame-cut", _E, "the file is shorter than its FileSummary records", ""),
    ("frame-summary", _E, "the FileSummary cannot be read", ""),
    ("frame-codec", _E, "the compression codec is unknown", ""),
    ("frame-codec-release", _W, "not every release of the layout has the compression codec", ""),
    ("frame-layout-old", _E, "the layout version is older than Hadoop 2.4", ""),
    ("frame-layout-unknown", _W, "the layout version is newer than every known version, so its rules are unknown", ""),
    ("digest-missing", _E, "the image has no .md5 file", "a new digest file is written for the unverified bytes"),
    (
        "digest-mismatch",
        _E,
        "the MD5 differs from the MD5 in the .md5 file",
        "a new digest file is written for the unverified bytes",
    ),
    (
        "txid-name",
        _E,
        "the file's name and NS_INFO have different txids",
        "the output's name must have the txid of NS_INFO",
    ),
    ("section-outside", _E, "a section reaches outside the section area", ""),
    ("section-overlap", _E, "two sections overlap", ""),
    ("section-twice", _E, "a section is listed twice", ""),
    ("section-missing", _E, "a section that every image has is missing", ""),
    ("section-absent", _I, "a section that a NameNode always writes, but does not need, is missing", ""),
    (
        "section-unknown",
        _E,
        (
            "the section's name is unknown to every NameNode (info if the layout version is newer than every known "
            "version)"
        ),
        "",
    ),
    ("section-compressed", _E, "a section's compressed bytes are damaged", ""),
    ("sub-section", _W, "sub-sections do not cover their section", "entries of sub-sections are omitted"),
    ("record-damaged", _E, "a record is truncated or is not a valid message", ""),
    ("record-unloadable", _E, "a NameNode cannot load a readable record or section correctly", ""),
    ("layout-refused", _E, "the layout cannot represent some content, and its NameNodes do not load the image", ""),
    ("layout-ignored", _W, "the layout cannot represent some content, which its NameNodes ignore", ""),
    # NS_INFO
    ("ns-block-id", _E, "a last allocated block id is lower than the block id of a file", "raised to that id"),
    ("ns-genstamp", _E, "a generation stamp is lower than the generation stamp of a block", "raised to that stamp"),
    # STRING_TABLE
    ("string-count", _E, "numEntry is not the number of entries", "corrected"),
    ("string-id", _E, "a string's id is outside the table's range", "dropped"),
    (
        "string-gap",
        _W,
        "ids of strings are missing, and Hadoop 2.7 to 2.9 and 3.0 NameNodes do not load the image",
        "strings unknown-SERIAL are added",
    ),
    ("string-twice", _E, "two strings have the same id", "the last string is kept"),
    ("string-mask", _E, "maskBits is larger than 3", ""),
    # INODE
    ("inode-count", _E, "numInodes is not the number of records", "corrected"),
    ("inode-last-id", _E, "lastInodeId is lower than the largest inode id", "raised"),
    ("inode-root", _E, "the root is missing or not a directory", ""),
    ("inode-twice", _E, "two records have the same inode id", "the last record is kept, as in a NameNode"),
    ("inode-id", _W, "an inode id is in the reserved range (below 16385)", ""),
    ("inode-kind", _E, "the type and the message in the record differ", "the type is set to match the message"),
    ("inode-user", _E, "the owner's serial is not in the string table", "a user unknown-SERIAL is added"),
    ("inode-group", _E, "the group's serial is not in the string table", "a group unknown-SERIAL is added"),
    ("inode-acl", _E, "a serial of an ACL entry is not in the string table", "a name unknown-SERIAL is added"),
    ("inode-xattr", _E, "the serial of an xattr's name is not in the string table", "a name unknown-SERIAL is added"),
    ("inode-replication", _E, "the replication is above 2047; in Hadoop 2, it is 0 or above 4095", "set to 3"),
    (
        "inode-no-replicas",
        _W,
        "the replication is 0: Hadoop 3 NameNodes load the file and regard every replica as excess",
        "set to 3",
    ),
    (
        "inode-redundancy",
        _E,
        "a file has both a replication and an erasure coding policy",
        "the replication is removed",
    ),
    ("inode-policy", _E, "a striped file has an erasure coding policy that is not in the image", ""),
    ("inode-block-type", _E, "a file with an erasure coding policy is not STRIPED", "set to STRIPED"),
    (
        "inode-value",
        _E,
        "a block size, block length, quota or storage policy is outside its range",
        "quota -1, block size 134217728, length 0, storage policy 0",
    ),
    (
        "inode-name",
        _E,
        "a name is empty or has a slash, or the root has a name",
        "the name becomes inode-ID, or empty for the root",
    ),
    (
        "inode-unreachable",
        _E,
        "the inode is not in any directory, reference or deleted list",
        "attached to /lost+found as inode-ID, or dropped on request",
    ),
    # INODE_DIR
    ("dir-parent", _E, "an entry's parent is not an inode, or not a directory", "dropped"),
    ("dir-parent-twice", _E, "a directory has two entries", "joined"),
    ("dir-child-missing", _E, "a child is not an inode", "dropped"),
    ("dir-child-twice", _E, "an inode is listed as a child twice", "the first listing is kept"),
    (
        "dir-child-referenced",
        _E,
        "an inode is both a child and referenced",
        "the reference in a directory is kept, otherwise the child",
    ),
    ("dir-child-order", _E, "children are not in Hadoop's name order", "sorted"),
    (
        "dir-child-name",
        _E,
        "two children have the same name",
        "the first inode is kept; the second moves to /lost+found",
    ),
    (
        "dir-child-reserved",
        _E,
        "a child of the root is named .reserved: a NameNode does not load the image",
        "moves to /lost+found as inode-ID",
    ),
    ("dir-reference-range", _E, "a reference number is not in INODE_REFERENCE", "dropped"),
    ("dir-reference-twice", _E, "a reference is used twice", "the first use is kept"),
    # INODE_REFERENCE
    ("reference-inode", _E, "a reference does not refer to an inode", "dropped with its use"),
    ("reference-dst-twice", _E, "an inode has two DstReferences", "the first is kept"),
    ("reference-name-twice", _E, "two WithName references have the same inode and lastSnapshotId", "the first is kept"),
    (
        "reference-snapshot",
        _E,
        "a name in snapshots ends before the name of its directory: a NameNode cannot count quotas across this name",
        "the lastSnapshotId is raised",
    ),
    ("reference-unused", _E, "a reference is not used by a directory entry or deleted list", "dropped"),
    # SNAPSHOT
    ("snapshot-count", _E, "numSnapshots is not the number of records", "corrected"),
    ("snapshot-counter", _E, "snapshotCounter is not greater than all snapshot ids", "raised"),
    ("snapshot-twice", _E, "two snapshots have the same id", "the first is kept"),
    ("snapshot-directory", _E, "a directory listed as snapshottable is not a directory", "dropped from the list"),
    ("snapshot-directory-twice", _E, "a directory is listed as snapshottable twice", "listed once"),
    ("snapshot-root", _E, "the snapshot's directory is not listed as snapshottable", "listed"),
    ("snapshot-root-missing", _E, "the snapshot's directory is not a directory", "the snapshot is dropped"),
    ("snapshot-order", _E, "the snapshots of a directory are not in name order", "sorted"),
    ("snapshot-name", _E, "two snapshots of a directory have the same name", "renamed NAME-ID"),
    # SNAPSHOT_DIFF
    ("diff-inode", _E, "diffs belong to a missing inode", "dropped"),
    ("diff-kind", _E, "a directory has file diffs or a file has directory diffs", "dropped"),
    ("diff-twice", _E, "an inode has two lists of diffs", "joined"),
    ("diff-order", _E, "diffs are not newest first", "sorted"),
    ("diff-snapshot-twice", _E, "an inode has two diffs for one snapshot", "the first is kept"),
    ("diff-root", _E, "a root diff belongs to a missing snapshot", "changed to a plain diff"),
    ("diff-root-other", _I, "a root diff belongs to a snapshot of another directory (Hadoop 3 can cause this)", ""),
    ("diff-snapshot", _W, "a diff belongs to a missing snapshot", ""),
    ("diff-created", _E, "a created name does not exist", "dropped"),
    ("diff-created-order", _W, "created names are not in order, or a name is listed twice", "sorted, each once"),
    ("diff-deleted", _E, "a deleted inode is not in the image", "dropped"),
    (
        "diff-deleted-twice",
        _E,
        "a deleted inode is also a child, or is listed as deleted twice",
        "the other entry is kept, and the inode's created name is removed",
    ),
    ("diff-deleted-order", _E, "deleted inodes are not in name order", "sorted"),
    (
        "diff-deleted-name",
        _E,
        "two deleted inodes have the same name",
        "the first inode is kept; the second moves to /lost+found",
    ),
    ("diff-reference-range", _E, "a reference number is not in INODE_REFERENCE", "dropped"),
    ("diff-reference-twice", _E, "a reference is used twice", "the first use is kept"),
    ("diff-size", _I, "childrenSize does not match the lists", ""),
    # FILES_UNDERCONSTRUCTION
    ("lease-inode", _E, "a file listed as under construction is not an inode", "dropped"),
    ("lease-closed", _E, "a file listed as under construction is closed", "dropped"),
    ("lease-twice", _W, "a file under construction is listed twice", "listed once"),
    ("lease-path", _W, "the path differs from the path of the file", "corrected"),
    (
        "lease-missing",
        _W,
        "an open file is not listed (severity info from layout -64 on, because the list is not read)",
        "listed",
    ),
    # SECRET_MANAGER, CACHE_MANAGER, ERASURE_CODING
    ("secret-count", _E, "numKeys or numTokens is not the number of records", "corrected"),
    ("secret-key-twice", _W, "two master keys have the same id", "the last key is kept"),
    ("secret-token-twice", _E, "a delegation token is listed twice", "the first is kept"),
    ("secret-token-key", _W, "the master key of a token is missing; a NameNode drops the token", "dropped"),
    ("secret-counter", _W, "a counter is lower than a number in use", "raised"),
    ("cache-count", _E, "numPools or numDirectives is not the number of records", "corrected"),
    ("cache-pool-twice", _E, "two cache pools have the same name", "the first is kept"),
    ("cache-directive-pool", _E, "the pool of a cache directive is missing", "dropped"),
    ("cache-directive-twice", _E, "two cache directives have the same id", "the first is kept"),
    ("cache-next-id", _E, "nextDirectiveId is not greater than all directive ids", "raised"),
    ("ec-twice", _E, "two erasure coding policies have the same id or name", "the first is kept"),
)

CODES: dict[str, FindingCode] = {row[0]: FindingCode(*row) for row in _ROWS}
