"""What verification can find: stable codes, how grave each is, and what a repair does about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """ERROR: a NameNode refuses the image, or loses or misplaces data. WARNING: nothing is lost. INFO: unusual."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding.

    Attributes:
        name: stable, in lower case with hyphens.
        severity: unless the finding itself says otherwise.
        meaning: one line.
        repair: what `repair_image` does; "" where it leaves the image as it is (and an error refuses repair).
    """

    name: str
    severity: Severity
    meaning: str
    repair: str


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO
_ROWS: tuple[tuple[str, Severity, str, str], ...] = (
    # the file
    ("frame-magic", _E, "the file does not start with HDFSIMG1", ""),
    ("frame-cut", _E, "the file is too short for what it says it holds", ""),
    ("frame-summary", _E, "the FileSummary cannot be read", ""),
    ("frame-codec", _E, "the compression codec is unknown", ""),
    ("frame-layout-old", _E, "the layout version is older than the protobuf format", ""),
    ("frame-layout-unknown", _W, "the layout version is newer than every known one; its rules are not known", ""),
    (
        "digest-missing",
        _E,
        "there is no .md5 file beside the image",
        "a digest file is written, of bytes nobody checked",
    ),
    (
        "digest-mismatch",
        _E,
        "the MD5 is not the one in the .md5 file",
        "a digest file is written, of bytes nobody checked",
    ),
    ("txid-name", _E, "the file's name and NS_INFO say different txids", "the output's name must say NS_INFO's"),
    ("section-outside", _E, "a section reaches outside the section area", ""),
    ("section-overlap", _E, "two sections overlap", ""),
    ("section-twice", _E, "a section is listed twice", ""),
    ("section-missing", _E, "a section that every image has is missing", ""),
    ("section-absent", _I, "a section is missing that a NameNode always writes but need not read", ""),
    ("section-unknown", _I, "a section of a name that this version does not know; it is copied", ""),
    ("section-compressed", _E, "a section's compressed bytes are damaged", ""),
    ("sub-section", _W, "sub-sections do not cover their section", "entries of sub-sections are left out"),
    ("record-damaged", _E, "a record is truncated or is not a valid message", ""),
    ("record-unloadable", _E, "a record or section as no NameNode loads it, though it can be read", ""),
    ("layout-refused", _E, "the layout has no place for something, and no NameNode of that layout loads it", ""),
    ("layout-ignored", _W, "the layout has no place for something, which its NameNodes ignore", ""),
    # NS_INFO
    ("ns-block-id", _E, "a last allocated block id is lower than one that a file has", "raised to that id"),
    ("ns-genstamp", _E, "a generation stamp is lower than one that a block has", "raised to that stamp"),
    # STRING_TABLE
    ("string-count", _E, "numEntry is not the number of entries", "corrected"),
    ("string-id", _E, "a string's id is outside the table's range", "dropped, or the ids before it are filled"),
    ("string-twice", _E, "two strings have one id", "the last one is kept"),
    ("string-mask", _E, "maskBits is larger than 3", ""),
    # INODE
    ("inode-count", _E, "numInodes is not the number of records", "corrected"),
    ("inode-last-id", _E, "lastInodeId is lower than the largest inode id", "raised"),
    ("inode-root", _E, "there is no root, or it is not a directory", ""),
    ("inode-twice", _E, "two records have one inode id", "the last one is kept, as a loader would"),
    ("inode-id", _W, "an inode id in the range that HDFS reserves (below 16385)", ""),
    ("inode-kind", _E, "the type and the message in the record differ", "the message decides"),
    ("inode-user", _E, "the owner's serial is not in the string table", "a user unknown-SERIAL is added"),
    ("inode-group", _E, "the group's serial is not in the string table", "a group unknown-SERIAL is added"),
    ("inode-acl", _E, "a serial of an ACL entry is not in the string table", "a name unknown-SERIAL is added"),
    ("inode-xattr", _E, "the serial of an xattr's name is not in the string table", "a name unknown-SERIAL is added"),
    ("inode-replication", _E, "a replication that no loader takes", "set to 3"),
    (
        "inode-redundancy",
        _E,
        "a file has both a replication and an erasure coding policy",
        "the replication is removed",
    ),
    ("inode-policy", _E, "a striped file with an erasure coding policy that is not in the image", ""),
    ("inode-block-type", _E, "a file with an erasure coding policy is not STRIPED", "set to STRIPED"),
    (
        "inode-value",
        _E,
        "a block size, block length, quota or storage policy outside its range",
        "quota -1, block size 134217728, length 0, storage policy 0",
    ),
    ("inode-name", _E, "an empty name, a name with a slash, or a root with a name", "inode-ID; the root's is emptied"),
    (
        "inode-unreachable",
        _E,
        "no directory, reference or deleted list leads to the inode",
        "attached to /lost+found as inode-ID, or dropped on request",
    ),
    # INODE_DIR
    ("dir-parent", _E, "an entry's parent is not an inode, or not a directory", "dropped"),
    ("dir-parent-twice", _E, "two entries of one directory", "joined"),
    ("dir-child-missing", _E, "a child is not an inode", "dropped"),
    ("dir-child-twice", _E, "an inode is listed as a child twice", "the first listing is kept"),
    (
        "dir-child-referenced",
        _E,
        "an inode is a child and referenced as well",
        "the reference in a directory is kept, else the child",
    ),
    ("dir-child-order", _E, "children are not in Hadoop's name order", "sorted"),
    ("dir-child-name", _E, "two children have one name", "the first is kept, the other goes to /lost+found"),
    (
        "dir-child-reserved",
        _E,
        "a child of the root is called .reserved: no NameNode loads the image",
        "goes to /lost+found as inode-ID",
    ),
    ("dir-reference-range", _E, "a reference number that INODE_REFERENCE does not have", "dropped"),
    ("dir-reference-twice", _E, "a reference is used twice", "the first use is kept"),
    # INODE_REFERENCE
    ("reference-inode", _E, "a reference to something that is not an inode", "dropped with its use"),
    ("reference-dst-twice", _E, "an inode has two DstReferences", "the first is kept"),
    ("reference-name-twice", _E, "two WithName references of one inode and lastSnapshotId", "the first is kept"),
    (
        "reference-snapshot",
        _E,
        "a name in snapshots ends before that of a directory which has it then: no NameNode counts quotas over it",
        "its lastSnapshotId is raised",
    ),
    ("reference-unused", _E, "a reference that no directory entry or deleted list uses", "dropped"),
    # SNAPSHOT
    ("snapshot-count", _E, "numSnapshots is not the number of records", "corrected"),
    ("snapshot-counter", _E, "snapshotCounter is not above every snapshot id", "raised"),
    ("snapshot-twice", _E, "two snapshots have one id", "the first is kept"),
    ("snapshot-directory", _E, "a directory listed as snapshottable is not a directory", "dropped from the list"),
    ("snapshot-directory-twice", _E, "a directory is listed as snapshottable twice", "listed once"),
    ("snapshot-root", _E, "the snapshot's directory is not listed as snapshottable", "listed"),
    ("snapshot-root-missing", _E, "the snapshot's directory is not a directory", "the snapshot is dropped"),
    ("snapshot-order", _E, "the snapshots of a directory are not in name order", "sorted"),
    ("snapshot-name", _E, "two snapshots of a directory have one name", "renamed NAME-ID"),
    # SNAPSHOT_DIFF
    ("diff-inode", _E, "diffs of something that is not an inode", "dropped"),
    ("diff-kind", _E, "file diffs of a directory or the other way round", "dropped"),
    ("diff-twice", _E, "two lists of diffs for one inode", "joined"),
    ("diff-order", _E, "diffs are not newest first", "sorted"),
    ("diff-snapshot-twice", _E, "two diffs of one inode for one snapshot", "the first is kept"),
    ("diff-root", _E, "a diff of a snapshot's root for a snapshot that does not exist", "made a plain diff"),
    (
        "diff-root-other",
        _I,
        "a diff of a snapshot's root for a snapshot of another directory (Hadoop 3 leaves some)",
        "",
    ),
    ("diff-snapshot", _W, "a diff for a snapshot that does not exist", ""),
    ("diff-created", _E, "a created name that resolves to nothing", "dropped"),
    ("diff-created-order", _W, "created names are not in order, or one is listed twice", "sorted, each once"),
    ("diff-deleted", _E, "a deleted inode that is not in the image", "dropped"),
    (
        "diff-deleted-twice",
        _E,
        "a deleted inode is listed elsewhere too",
        "the other listing is kept, and no created name hides it",
    ),
    ("diff-deleted-order", _E, "deleted inodes are not in name order", "sorted"),
    ("diff-deleted-name", _E, "two deleted inodes have one name", "the first is kept, the other goes to /lost+found"),
    ("diff-reference-range", _E, "a reference number that INODE_REFERENCE does not have", "dropped"),
    ("diff-reference-twice", _E, "a reference is used twice", "the first use is kept"),
    ("diff-size", _I, "childrenSize is not what the lists say", ""),
    # FILES_UNDERCONSTRUCTION
    ("lease-inode", _E, "a file listed as under construction is not an inode", "dropped"),
    ("lease-closed", _E, "a file listed as under construction is closed", "dropped"),
    ("lease-twice", _W, "a file under construction is listed twice", "listed once"),
    ("lease-path", _W, "the path is not where the file is", "corrected"),
    ("lease-missing", _W, "an open file is not listed (info from layout -64 on, which do not read the list)", "listed"),
    # SECRET_MANAGER, CACHE_MANAGER, ERASURE_CODING
    ("secret-count", _E, "numKeys or numTokens is not the number of records", "corrected"),
    ("secret-key-twice", _W, "two master keys have one id", "the last one is kept"),
    ("secret-token-twice", _E, "two delegation tokens have one sequence number", "the first is kept"),
    ("secret-token-key", _W, "a token whose master key is missing; loading drops it", "dropped"),
    ("secret-counter", _W, "a counter is lower than a number in use", "raised"),
    ("cache-count", _E, "numPools or numDirectives is not the number of records", "corrected"),
    ("cache-pool-twice", _E, "two cache pools have one name", "the first is kept"),
    ("cache-directive-pool", _E, "a cache directive of a pool that does not exist", "dropped"),
    ("cache-directive-twice", _E, "two cache directives have one id", "the first is kept"),
    ("cache-next-id", _E, "nextDirectiveId is not above every directive's id", "raised"),
    ("ec-twice", _E, "two erasure coding policies have one id or name", "the first is kept"),
)

CODES: dict[str, Code] = {row[0]: Code(*row) for row in _ROWS}
