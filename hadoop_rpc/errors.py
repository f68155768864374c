"""Errors of Hadoop RPC and their mapping to Java exceptions, in both directions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, TypeVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode
from hadoop_rpc.policy_keys import advice_on_refusal

_EXPECTED_LAYOUT = re.compile(r"Expecting = (-\d+)")
_STACK_LINE = re.compile(r"\n\s*at [\w.$<>/]+\(")


class RpcError(HdfsError):
    """Root of the package's errors; the exit code is that of a failed transfer."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER


class RpcConnectionError(RpcError):
    """There is no connection, or it broke; `sent` is true if the call may have reached the server."""

    def __init__(self, message: str, *, hint: str = "", sent: bool = False) -> None:
        super().__init__(
            message,
            hint=hint
            or "Check that the server at this address is running, its port, and the network between the hosts.",
        )
        self.sent = sent


class RpcTimeoutError(RpcConnectionError):
    """No response arrived in time; the server may still perform the call."""


class RpcProtocolError(RpcError):
    """The received bytes are not Hadoop RPC of version 9."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or "Check that this is the server's RPC address, not its HTTP address.")


class AuthenticationRequiredError(RpcError):
    """The two sides have no authentication method in common."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or "Set hadoop.security.authentication in core-site.xml as in the cluster.")


class KerberosError(RpcError):
    """Kerberos failed on this side, or the other side did not prove its identity."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or "Run with KRB5_TRACE=/dev/stderr to trace Kerberos.")


class KerberosSetupError(KerberosError):
    """A Kerberos prerequisite is missing on this host; waiting does not help."""

    exit_code: ClassVar[int] = ExitCode.USAGE


class LoginRefusedError(KerberosError):
    """The server rejected our Kerberos token; the cause is only in its log."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the server refused our Kerberos token: {reason}",
            hint="The server's log has the reason (Auth failed). Often its clock is more than 5 minutes off, or its "
            "keytab is older than its key in the KDC.",
        )


class RemoteError(RpcError):
    """An exception that the server returned for a call.

    `class_name` is its Java class, `text` its message without class and stack trace.
    """

    java_class: ClassVar[str] = "java.io.IOException"
    default_hint: ClassVar[str] = "Check the log of the other side for the cause."

    def __init__(self, text: str, *, class_name: str = "", hint: str = "") -> None:
        self.class_name = class_name or self.java_class
        self.text = text
        super().__init__(f"{self.class_name.rpartition('.')[2]}: {text}", hint=hint or self.default_hint)


_OLDER_STATE_HINT = (
    "The NameNode was started with older images or edits than its DataNodes know, and would have their newer blocks "
    "deleted. Do not force it out of safe mode: give it the newest image and edits, from its other directories, from "
    "the shared edits or from this daemon."
)
_LOW_RESOURCES_HINT = (
    "Free space on the disks of the NameNode's directories (dfs.namenode.resource.du.reserved). Safe mode then stays "
    "on until an operator ends it."
)
_MANUAL_HINT = "An operator turned safe mode on, and it stays on until an operator ends it: ask who did, and why."
# hints by phrases of the NameNode's message; for these reasons, it does not leave safe mode on its own
_SAFE_MODE_HINTS = {
    "generation stamps in future": _OLDER_STATE_HINT,
    "Resources are low": _LOW_RESOURCES_HINT,
    "turned on manually": _MANUAL_HINT,
}

E = TypeVar("E", bound=type[RemoteError])
_BY_JAVA_CLASS: dict[str, type[RemoteError]] = {}


def _java_exception(name: str) -> Callable[[E], E]:
    """Register a class for a Java exception."""

    def register(cls: E) -> E:
        cls.java_class = name
        _BY_JAVA_CLASS[name] = cls
        return cls

    return register


def remote_error(class_name: str, message: str) -> RemoteError:
    """Return the error for a Java exception; an unknown class becomes a plain `RemoteError`."""
    text = _STACK_LINE.split(message, maxsplit=1)[0].strip()
    text = text.removeprefix(class_name).removeprefix(": ").strip() or "no reason given"
    # join the lines of a message, such as that of safe mode
    text = " ".join(text.split("\n"))
    kind = _BY_JAVA_CLASS.get(class_name, RemoteError)
    return kind(text, class_name=class_name)


@_java_exception("java.io.IOException")
class JavaIOError(RemoteError):
    """A failure without a more specific exception in Hadoop."""


# ---- state of the server ----


@_java_exception("org.apache.hadoop.ipc.StandbyException")
class StandbyError(RemoteError):
    """The NameNode is not active; another one may be."""

    default_hint = "Ask the active NameNode."


@_java_exception("org.apache.hadoop.ipc.RetriableException")
class RetriableError(RemoteError):
    """The server cannot answer now, but will soon."""

    default_hint = "Try again later."


@_java_exception("org.apache.hadoop.hdfs.server.namenode.SafeModeException")
class SafeModeError(RemoteError):
    """The NameNode is in safe mode and rejects changes."""

    default_hint = (
        "Wait until the NameNode leaves safe mode on its own; its web page shows what it waits for. If blocks are "
        "missing, find the DataNodes that have them: a NameNode that is forced out of safe mode may have "
        "these blocks deleted."
    )

    def __init__(self, text: str, *, class_name: str = "", hint: str = "") -> None:
        known = (advice for words, advice in _SAFE_MODE_HINTS.items() if words in text)
        super().__init__(text, class_name=class_name, hint=hint or next(known, ""))


@_java_exception("org.apache.hadoop.security.AccessControlException")
class AccessControlError(RemoteError):
    """The caller lacks the required permission."""

    default_hint = "Run as a superuser of HDFS (see hadoop.user.name), or add the user to its supergroup."


@_java_exception("org.apache.hadoop.security.authorize.AuthorizationException")
class NotAuthorizedError(RemoteError):
    """The server does not allow this principal to use the protocol."""

    def __init__(self, text: str, *, class_name: str = "", hint: str = "") -> None:
        super().__init__(text, class_name=class_name, hint=hint or advice_on_refusal(text))


@_java_exception("javax.security.sasl.SaslException")
class SaslError(RemoteError):
    """The login failed, or a message arrived out of order."""


@_java_exception("org.apache.hadoop.hdfs.protocol.UnregisteredNodeException")
class UnregisteredNodeError(RemoteError):
    """The caller is not registered at the NameNode as a backup node."""


@_java_exception("org.apache.hadoop.ha.HealthCheckFailedException")
class HealthCheckFailedError(RemoteError):
    """The NameNode is unhealthy; a failover controller then looks for another NameNode."""


@_java_exception("org.apache.hadoop.ha.ServiceFailedException")
class ServiceFailedError(RemoteError):
    """A NameNode could not enter the requested state, or a failover controller could not cause the transition."""


# ---- the call itself ----


@_java_exception("org.apache.hadoop.ipc.RpcServerException")
class RpcServerError(RemoteError):
    """The server could not accept the call."""


@_java_exception("org.apache.hadoop.ipc.RpcNoSuchMethodException")
class NoSuchRpcMethodError(RemoteError):
    """The server's protocol has no such method."""

    default_hint = "The other side's release is too old, or too new, for this call."


@_java_exception("org.apache.hadoop.ipc.RpcNoSuchProtocolException")
class NoSuchProtocolError(RemoteError):
    """The server does not serve this protocol."""

    default_hint = "Check that the address belongs to the right kind of server."


@_java_exception("org.apache.hadoop.ipc.RPC$VersionMismatch")
class VersionMismatchError(RemoteError):
    """The two sides use different protocol versions."""


# ---- the namespace ----


@_java_exception("org.apache.hadoop.hdfs.server.common.IncorrectVersionException")
class IncorrectVersionError(RemoteError):
    """The caller reported a different layout version than the server expects."""

    @property
    def expected(self) -> int | None:
        """The layout version that the server expects; None if the message does not name it."""
        found = _EXPECTED_LAYOUT.search(self.text)
        return None if found is None else int(found[1])


@_java_exception("java.lang.UnsupportedOperationException")
class UnsupportedOperationRemoteError(RemoteError):
    """The server does not support this operation."""


# ---- journals ----


@_java_exception("org.apache.hadoop.hdfs.qjournal.protocol.JournalNotFormattedException")
class JournalNotFormattedError(RemoteError):
    """The JournalNode does not have this journal."""

    default_hint = (
        "Check that its disk is mounted. If the journal is really lost, `checkpointer journalnode format "
        "--from-peers` copies it from the other JournalNodes; the NameNode formats only a new journal."
    )


@_java_exception("org.apache.hadoop.hdfs.qjournal.protocol.JournalOutOfSyncException")
class JournalOutOfSyncError(RemoteError):
    """The JournalNode missed data that the writer sent."""

    default_hint = "Begin a new segment: the JournalNode participates again from then on."


@_java_exception("org.apache.hadoop.hdfs.qjournal.server.JournaledEditsCache$CacheMissException")
class EditsCacheMissError(RemoteError):
    """The JournalNode's cache does not contain the transactions.

    `missing` counts the transactions before the first cached one; 0 if unknown.
    """

    default_hint = "Read the segments over HTTP, or increase dfs.journalnode.edit-cache-size.bytes on the JournalNodes."

    def __init__(self, text: str, *, class_name: str = "", hint: str = "", missing: int = 0) -> None:
        super().__init__(text, class_name=class_name, hint=hint)
        self.missing = missing


@_java_exception("org.apache.hadoop.hdfs.qjournal.server.NewerTxnIdException")
class NewerTxidError(RemoteError):
    """The JournalNode lags: its newest transaction precedes the requested ones."""

    default_hint = "Ask the other JournalNodes."


@_java_exception("org.apache.hadoop.hdfs.server.common.InconsistentFSStateException")
class InconsistentStorageError(RemoteError):
    """A storage directory of the server is in an inconsistent state."""


# ---- the server's own checks ----


@_java_exception("java.lang.IllegalArgumentException")
class IllegalArgumentRemoteError(RemoteError):
    """An argument of the call is invalid."""


@_java_exception("java.lang.IllegalStateException")
class IllegalStateError(RemoteError):
    """The server's state does not allow the call."""


@_java_exception("java.lang.AssertionError")
class AssertionRemoteError(RemoteError):
    """The server is in a state that the protocol excludes."""
