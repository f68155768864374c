"""Why an operation is refused, with the Java class a Hadoop client gets to see."""

from __future__ import annotations

from typing import ClassVar

from engine.errors import CheckpointError


class OperationRefusedError(CheckpointError):
    """A client asked for something the namespace does not allow; nothing was logged."""

    java_class: ClassVar[str] = "java.io.IOException"


class NotThereError(OperationRefusedError):
    """A file or directory does not exist."""

    java_class: ClassVar[str] = "java.io.FileNotFoundException"


class AlreadyThereError(OperationRefusedError):
    """A file or directory is where a new one was to be."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.FileAlreadyExistsException"


class NotADirectoryRefusalError(OperationRefusedError):
    """Something above a path is not a directory."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.ParentNotDirectoryException"


class NotEmptyError(OperationRefusedError):
    """A directory has children, and was not to be deleted with them."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"


class InvalidPathError(OperationRefusedError):
    """A path or a part of it is not a name."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.InvalidPathException"


class IllegalArgumentError(OperationRefusedError):
    """An argument has a value it must not have."""

    java_class: ClassVar[str] = "org.apache.hadoop.HadoopIllegalArgumentException"


class InSafeModeError(OperationRefusedError):
    """The namespace must not change now."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"


class SnapshotRefusedError(OperationRefusedError):
    """Snapshots stand in the way, or are not there."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.SnapshotException"


class SnapshotPathError(OperationRefusedError):
    """A snapshot cannot be changed."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException"


class AlreadyBeingCreatedError(OperationRefusedError):
    """Somebody is writing the file."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException"


class LeaseExpiredError(OperationRefusedError):
    """The client does not hold the file's lease."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"


class QuotaExceededError(OperationRefusedError):
    """A directory may not hold so many names."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException"


class SymlinkInPathError(OperationRefusedError):
    """A path leads through a symbolic link; the client resolves it and asks again."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.UnresolvedPathException"


class NoDataNodesError(OperationRefusedError):
    """Data cannot be written: the stub has no DataNodes."""


class NoPolicySetError(OperationRefusedError):
    """A directory has no erasure coding policy of its own."""

    java_class: ClassVar[str] = "org.apache.hadoop.hdfs.protocol.NoECPolicySetException"


class InvalidRequestError(OperationRefusedError):
    """What was asked of the caches makes no sense, or names what does not exist."""

    java_class: ClassVar[str] = "org.apache.hadoop.fs.InvalidRequestException"


class UnsupportedRequestError(OperationRefusedError):
    """Files of this kind do not have the operation."""

    java_class: ClassVar[str] = "java.lang.UnsupportedOperationException"
