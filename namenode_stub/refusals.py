"""Refusals of operations, with the Java exceptions for Hadoop's clients."""

from __future__ import annotations

from typing import ClassVar

from engine.errors import CheckpointError


class OperationRefusedError(CheckpointError):
    """A client requested an operation that the namespace does not allow; nothing was logged."""

    java_class: ClassVar[str] = "java.io.IOException"


class NotThereError(OperationRefusedError):
    """A file or directory does not exist."""

    java_class: ClassVar[str] = "java.io.FileNotFoundException"


class AlreadyThereError(OperationRefusedError):
    """A file or directory exists at the new path."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.FileAlreadyExistsException"


class NotADirectoryRefusalError(OperationRefusedError):
    """A component above a path is not a directory."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.ParentNotDirectoryException"


class NotEmptyError(OperationRefusedError):
    """A directory with children cannot be deleted without `recursive`."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"


class InvalidPathRefusalError(OperationRefusedError):
    """A path or one of its components is not a valid name."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.InvalidPathException"


class IllegalArgumentError(OperationRefusedError):
    """An argument has an invalid value."""

    java_class: ClassVar[str] = "org.apache.hadoop.HadoopIllegalArgumentException"


class InSafeModeError(OperationRefusedError):
    """Safe mode forbids changes."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"


class SnapshotRefusedError(OperationRefusedError):
    """Snapshots prevent the operation, or do not exist."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.SnapshotException"


class SnapshotPathError(OperationRefusedError):
    """A snapshot cannot be changed."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException"


class BeingWrittenRefusalError(OperationRefusedError):
    """Another client is writing the file."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException"


class LeaseExpiredRefusalError(OperationRefusedError):
    """The client does not hold the file's lease."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"


class QuotaRefusalError(OperationRefusedError):
    """A directory would exceed its quota of names."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException"


class SymlinkInPathError(OperationRefusedError):
    """A path leads through a symbolic link; the client resolves the link and retries."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.UnresolvedPathException"


class NoDataNodesError(OperationRefusedError):
    """Data cannot be written: the stub has no DataNodes."""


class NoPolicySetError(OperationRefusedError):
    """A directory has no erasure coding policy of its own."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.NoECPolicySetException"


class InvalidRequestError(OperationRefusedError):
    """A cache request is invalid, or names something that does not exist."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.InvalidRequestException"


class UnsupportedRequestError(OperationRefusedError):
    """Files of this kind do not support the operation."""

    java_class: ClassVar[str] = "java.lang.UnsupportedOperationException"
