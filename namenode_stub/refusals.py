"""Refusals of operations, with the Java exceptions that Hadoop's clients expect."""

from __future__ import annotations

from typing import ClassVar

from engine.errors import CheckpointError


class OperationRefusedError(CheckpointError):
    """A client's operation that the namespace does not allow; nothing was logged."""

    java_class: ClassVar[str] = "java.io.IOException"


class NotThereError(OperationRefusedError):
    """A request for a file or directory that does not exist."""

    java_class: ClassVar[str] = "java.io.FileNotFoundException"


class AlreadyThereError(OperationRefusedError):
    """A request to create a path at which a file or directory exists."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.FileAlreadyExistsException"


class NotADirectoryRefusalError(OperationRefusedError):
    """A request for a path below a component that is not a directory."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.ParentNotDirectoryException"


class NotEmptyError(OperationRefusedError):
    """A request to delete a directory with children without `recursive`."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"


class InvalidPathRefusalError(OperationRefusedError):
    """A request with a path that is invalid, or has a component that is not a valid name."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.InvalidPathException"


class IllegalArgumentError(OperationRefusedError):
    """A request with an invalid argument."""

    java_class: ClassVar[str] = "org.apache.hadoop.HadoopIllegalArgumentException"


class InSafeModeError(OperationRefusedError):
    """A change that safe mode forbids."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"


class SnapshotRefusedError(OperationRefusedError):
    """An operation that snapshots prevent, or whose snapshot does not exist."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.SnapshotException"


class SnapshotPathError(OperationRefusedError):
    """A change to a path in a snapshot; snapshots are read-only."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException"


class BeingWrittenRefusalError(OperationRefusedError):
    """A request for a file that another client is writing."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException"


class LeaseExpiredRefusalError(OperationRefusedError):
    """A request by a client that does not hold the file's lease."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"


class QuotaRefusalError(OperationRefusedError):
    """A request after which a directory would exceed its quota of names."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException"


class SymlinkInPathError(OperationRefusedError):
    """A request for a path that leads through a symbolic link; the client resolves the link and retries."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.UnresolvedPathException"


class NoDataNodesError(OperationRefusedError):
    """A request to write data, although the stub has no DataNodes."""


class NoPolicySetError(OperationRefusedError):
    """A request to remove the erasure coding policy of a directory on which none is set."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.NoECPolicySetException"


class InvalidRequestError(OperationRefusedError):
    """A cache request that is invalid, or that refers to a missing pool, directive or path."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.InvalidRequestException"


class UnsupportedRequestError(OperationRefusedError):
    """An operation that files of this kind do not support."""

    java_class: ClassVar[str] = "java.lang.UnsupportedOperationException"
