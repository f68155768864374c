"""Errors of Hadoop RPC, and which Java exception each stands for, in both directions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, TypeVar

from hadoop_common.errors import EXIT_TRANSFER, EXIT_UNSUPPORTED, EXIT_USAGE, HdfsError
from hadoop_rpc.policy_keys import advice_on_refusal

_STACK_LINE = re.compile(r"\n\s*at [\w.$<>/]+\(")


class RpcError(HdfsError):
    """Root of the package's errors; `exit_code` is that of a failed transfer."""

    exit_code: ClassVar[int] = EXIT_TRANSFER


class RpcConnectionError(RpcError):
    """There is no connection, or it was cut; `sent` tells whether the call may have reached the server."""

    def __init__(self, message: str, *, hint: str = "", sent: bool = False) -> None:
        super().__init__(
            message, hint=hint or "Check that the server at this address is up, its port, and the network between."
        )
        self.sent = sent


class RpcTimeoutError(RpcConnectionError):
    """No answer came in time; the server may still perform the call."""


class RpcProtocolError(RpcError):
    """What came over the connection is not Hadoop RPC of version 9."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(
            message, hint=hint or "Check that the address is that of RPC, not the HTTP one of the same server."
        )


class AuthenticationRequiredError(RpcError):
    """The two sides have no authentication in common."""

    exit_code: ClassVar[int] = EXIT_UNSUPPORTED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(
            message, hint=hint or "Set hadoop.security.authentication in core-site.xml as the cluster has it."
        )


class KerberosError(RpcError):
    """Kerberos refused something on this side, or what the other side sent does not prove who it is."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or "Run with KRB5_TRACE=/dev/stderr to see what Kerberos does.")


class KerberosSetupError(KerberosError):
    """What Kerberos needs on this host is not there; nothing of it comes by waiting."""

    exit_code: ClassVar[int] = EXIT_USAGE


class LoginRefusedError(KerberosError):
    """The server refused our Kerberos token; it writes the cause into its own log only."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the server refused our Kerberos token: {reason}",
            hint="Its log says why (Auth failed): often its clock is more than 5 minutes off, or its keytab is older "
            "than its key in the KDC.",
        )


class RemoteError(RpcError):
    """An exception that the server answered a call with.

    `class_name` is its Java class, `text` what it says, without the class and the stack trace.
    """

    java_class: ClassVar[str] = "java.io.IOException"
    default_hint: ClassVar[str] = "Check the log of the other side for the cause."

    def __init__(self, text: str, *, class_name: str = "", hint: str = "") -> None:
        self.class_name = class_name or self.java_class
        self.text = text
        super().__init__(f"{self.class_name.rpartition('.')[2]}: {text}", hint=hint or self.default_hint)


E = TypeVar("E", bound=type[RemoteError])
_BY_JAVA_CLASS: dict[str, type[RemoteError]] = {}


def _java_exception(name: str) -> Callable[[E], E]:
    """Register the class that stands for a Java exception."""

    def register(cls: E) -> E:
        cls.java_class = name
        _BY_JAVA_CLASS[name] = cls
        return cls

    return register


def remote_error(class_name: str, message: str) -> RemoteError:
    """The error for a Java exception; one of an unknown class is a plain `RemoteError`."""
    text = _STACK_LINE.split(message, maxsplit=1)[0].strip()
    text = text.removeprefix(class_name).removeprefix(": ").strip() or "no reason given"
    # a message of several lines, as that of safe mode, is one sentence after the other here
    text = " ".join(text.split("\n"))
    kind = _BY_JAVA_CLASS.get(class_name, RemoteError)
    return kind(text, class_name=class_name)


@_java_exception("java.io.IOException")
class JavaIOError(RemoteError):
    """What Hadoop has no better word for."""


# ---- state of the server ----


@_java_exception("org.apache.hadoop.ipc.StandbyException")
class StandbyError(RemoteError):
    """The NameNode is not active; another one may be."""

    default_hint = "Ask the active NameNode."


@_java_exception("org.apache.hadoop.ipc.RetriableException")
class RetriableError(RemoteError):
    """The server cannot answer now, but soon."""

    default_hint = "Try again later."


@_java_exception("org.apache.hadoop.hdfs.server.namenode.SafeModeException")
class SafeModeError(RemoteError):
    """The NameNode is in safe mode and changes nothing."""

    default_hint = (
        "Wait until the NameNode has left safe mode by itself; its web page tells what it waits for. While blocks are "
        "missing, look for the DataNodes that have them: a NameNode that is forced out of safe mode may have "
        "them deleted."
    )


@_java_exception("org.apache.hadoop.security.AccessControlException")
class AccessControlError(RemoteError):
    """The caller may not do this."""

    default_hint = "Run as a superuser of HDFS (see hadoop.user.name), or add the user to its supergroup."


@_java_exception("org.apache.hadoop.security.authorize.AuthorizationException")
class NotAuthorizedError(RemoteError):
    """The server does not let this principal use the protocol."""

    def __init__(self, text: str, *, class_name: str = "", hint: str = "") -> None:
        super().__init__(text, class_name=class_name, hint=hint or advice_on_refusal(text))


@_java_exception("javax.security.sasl.SaslException")
class SaslError(RemoteError):
    """The login failed, or what was sent to it is out of order."""


@_java_exception("org.apache.hadoop.hdfs.protocol.UnregisteredNodeException")
class UnregisteredNodeError(RemoteError):
    """The NameNode does not know the caller as one of its backup nodes."""


@_java_exception("org.apache.hadoop.ha.HealthCheckFailedException")
class HealthCheckFailedError(RemoteError):
    """The NameNode is not well; a failover controller looks for another one."""


@_java_exception("org.apache.hadoop.ha.ServiceFailedException")
class ServiceFailedError(RemoteError):
    """A NameNode could not take the state that was asked for, or a controller could not bring that about."""


# ---- the call itself ----


@_java_exception("org.apache.hadoop.ipc.RpcServerException")
class RpcServerError(RemoteError):
    """The server could not take the call."""


@_java_exception("org.apache.hadoop.ipc.RpcNoSuchMethodException")
class NoSuchRpcMethodError(RemoteError):
    """The protocol has no such method there."""

    default_hint = "The other side's release is too old, or too new, for this call."


@_java_exception("org.apache.hadoop.ipc.RpcNoSuchProtocolException")
class NoSuchProtocolError(RemoteError):
    """The server does not serve this protocol."""

    default_hint = "Check that the address is that of the right kind of server."


@_java_exception("org.apache.hadoop.ipc.RPC$VersionMismatch")
class VersionMismatchError(RemoteError):
    """The two sides speak different versions."""


# ---- the namespace ----


@_java_exception("java.lang.UnsupportedOperationException")
class UnsupportedOperationRemoteError(RemoteError):
    """The server does not offer this operation."""


@_java_exception("java.io.FileNotFoundException")
class PathNotFoundError(RemoteError):
    """There is no such file or directory."""


@_java_exception("org.apache.hadoop.fs.FileAlreadyExistsException")
class FileAlreadyExistsError(RemoteError):
    """A file or directory of this name exists."""


@_java_exception("org.apache.hadoop.fs.ParentNotDirectoryException")
class ParentNotDirectoryError(RemoteError):
    """What should be a directory above is none."""


@_java_exception("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException")
class NotEmptyDirectoryError(RemoteError):
    """A directory with content is not deleted without `recursive`."""


@_java_exception("org.apache.hadoop.fs.InvalidPathException")
class InvalidPathError(RemoteError):
    """What was given cannot be a path."""


@_java_exception("org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException")
class AlreadyBeingCreatedError(RemoteError):
    """Another client has the file open for write."""


@_java_exception("org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException")
class LeaseExpiredError(RemoteError):
    """The client does not hold the file's lease."""


@_java_exception("org.apache.hadoop.hdfs.protocol.SnapshotException")
class SnapshotError(RemoteError):
    """The directory's snapshots do not allow this."""


@_java_exception("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException")
class QuotaExceededError(RemoteError):
    """A directory would hold more names than its quota."""


# ---- journals ----


@_java_exception("org.apache.hadoop.hdfs.qjournal.protocol.JournalNotFormattedException")
class JournalNotFormattedError(RemoteError):
    """The JournalNode holds no such journal."""

    default_hint = (
        "See that its disk is mounted. Where the journal is really gone, `checkpointer journalnode format "
        "--from-peers` takes it over from the other JournalNodes; only a new journal is formatted by the NameNode."
    )


@_java_exception("org.apache.hadoop.hdfs.qjournal.protocol.JournalOutOfSyncException")
class JournalOutOfSyncError(RemoteError):
    """The JournalNode has missed something that the writer sent."""

    default_hint = "Begin a new segment: the JournalNode takes part again from there on."


@_java_exception("org.apache.hadoop.hdfs.qjournal.server.JournaledEditsCache$CacheMissException")
class EditsCacheMissError(RemoteError):
    """The JournalNode's cache does not hold the transactions any more, or not yet.

    `missing` counts the transactions before the first one in the cache; 0 where that is unknown.
    """

    default_hint = (
        "Read the segments over HTTP, or give the JournalNodes more of dfs.journalnode.edit-cache-size.bytes."
    )

    def __init__(self, text: str, *, class_name: str = "", hint: str = "", missing: int = 0) -> None:
        super().__init__(text, class_name=class_name, hint=hint)
        self.missing = missing


@_java_exception("org.apache.hadoop.hdfs.qjournal.server.NewerTxnIdException")
class NewerTxidError(RemoteError):
    """The JournalNode lags: transactions right behind its newest one are not what was asked for."""

    default_hint = "Ask the other JournalNodes."


@_java_exception("org.apache.hadoop.hdfs.server.common.InconsistentFSStateException")
class InconsistentStorageError(RemoteError):
    """A storage directory of the server is in a state that it cannot work with."""


# ---- the server's own checks ----


@_java_exception("java.lang.IllegalArgumentException")
class IllegalArgumentRemoteError(RemoteError):
    """An argument of the call cannot be right."""


@_java_exception("java.lang.IllegalStateException")
class IllegalStateError(RemoteError):
    """What the server holds forbids the call."""


@_java_exception("java.lang.AssertionError")
class AssertionRemoteError(RemoteError):
    """What the protocol rules out has come about at the server."""
