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
    """Base of the package's errors; the exit code is the code of a failed transfer."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER


class RpcConnectionError(RpcError):
    """Failure to open a connection, or its loss; `sent` is true if the call may have reached the server."""

    default_hint = "Check that the server at this address is running, its port, and the network between the hosts."

    def __init__(self, message: str, *, hint: str = "", sent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.sent = sent


class RpcTimeoutError(RpcConnectionError):
    """Lack of a response in time; the server may still perform the call."""


class RpcProtocolError(RpcError):
    """Receipt of bytes that are not Hadoop RPC of version 9."""

    default_hint = "Check that this is the server's RPC address, not its HTTP address."


class AuthenticationRequiredError(RpcError):
    """Lack of an authentication method that both sides support."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED
    default_hint = "Set hadoop.security.authentication in core-site.xml as in the cluster."


class KerberosError(RpcError):
    """Failure of Kerberos on this side, or of a peer to prove its identity."""

    default_hint = "Run with KRB5_TRACE=/dev/stderr to trace Kerberos."


class KerberosSetupError(KerberosError):
    """Lack of a prerequisite of Kerberos on this host; waiting does not help."""

    exit_code: ClassVar[int] = ExitCode.USAGE


class LoginRefusedError(KerberosError):
    """Rejection of our Kerberos token by the server; only the server's log contains the cause."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the server refused our Kerberos token: {reason}",
            hint="The server's log contains the reason (Auth failed). Often its clock is more than 5 minutes off, "
            "or its keytab is older than its key in the KDC.",
        )


class RemoteError(RpcError):
    """An exception that the server returned for a call.

    `class_name` is its Java class, `text` its message without class and stack trace.
    """

    java_class: ClassVar[str] = "java.io.IOException"
    default_hint = "Check the log of the other side for the cause."

    def __init__(self, text: str, *, class_name: str = "", hint: str = "") -> None:
        self.class_name = class_name or self.java_class
        self.text = text
        super().__init__(f"{self.class_name.rpartition('.')[2]}: {text}", hint=hint)


_OLDER_STATE_HINT = (
    "The NameNode was started with images or edits that are older than the blocks on its DataNodes, and would have the "
    "newer blocks deleted. Do not force it out of safe mode. Provide the newest image and edits, from its other "
    "directories, from the shared edits or from this daemon."
)
_FREE_SPACE = "Free space on the disks of the NameNode's directories (dfs.namenode.resource.du.reserved)."
_MANUAL_HINT = (
    "An operator turned safe mode on, and it stays on until an operator ends it. Find out who turned it on, and why."
)
# hints by phrases of the NameNode's message; safe mode does not end for these reasons until an operator acts
_SAFE_MODE_HINTS = {
    "generation stamps in future": _OLDER_STATE_HINT,
    # the text up to Hadoop 3.4, although Hadoop 3.4 and newer end safe mode when there is space again (HDFS-17231)
    "turn off safe mode manually": f"{_FREE_SPACE} Up to Hadoop 3.3, an operator must then end safe mode.",
    "Resources are low": f"{_FREE_SPACE} The NameNode then ends safe mode.",
    "turned on manually": _MANUAL_HINT,
}

E = TypeVar("E", bound=type[RemoteError])
_BY_JAVA_CLASS: dict[str, type[RemoteError]] = {}


def _java_exception(name: str) -> Callable[[E], E]:
    """Return a decorator that registers a class for a Java exception."""

    def register(cls: E) -> E:
        cls.java_class = name
        _BY_JAVA_CLASS[name] = cls
        return cls

    return register


def remote_error(class_name: str, message: str) -> RemoteError:
    """Return the error for a Java exception; an unknown class becomes a plain `RemoteError`."""
    text = _STACK_LINE.split(message, maxsplit=1)[0].strip()
    text = text.removeprefix(class_name).removeprefix(": ").strip() or "no reason given"
    # join the lines of a message, such as the safe mode message
    text = " ".join(text.split("\n"))
    kind = _BY_JAVA_CLASS.get(class_name, RemoteError)
    return kind(text, class_name=class_name)


@_java_exception("java.io.IOException")
class JavaIOError(RemoteError):
    """A failure without a more specific exception in Hadoop."""


# ---- state of the server ----


@_java_exception("org.apache.hadoop.ipc.StandbyException")
class StandbyError(RemoteError):
    """Refusal of a call by a NameNode that is not active; another NameNode may be active."""

    default_hint = "Ask the active NameNode."


@_java_exception("org.apache.hadoop.ipc.RetriableException")
class RetriableError(RemoteError):
    """Refusal of a call that the server cannot answer now, but can answer soon."""

    default_hint = "Try again later."


@_java_exception("org.apache.hadoop.hdfs.server.namenode.SafeModeException")
class SafeModeError(RemoteError):
    """Refusal of a change by a NameNode in safe mode."""

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
    """Refusal of a call for which the caller lacks the required permission."""

    default_hint = (
        "The user must be a superuser of HDFS. With Kerberos, hadoop.security.auth_to_local in the NameNode's "
        "configuration must map our principal to the NameNode's user, or to a member of "
        "dfs.permissions.superusergroup; without Kerberos, hadoop.user.name names the user."
    )


@_java_exception("org.apache.hadoop.security.authorize.AuthorizationException")
class NotAuthorizedError(RemoteError):
    """Refusal of a principal that the server does not allow to use the protocol."""

    def __init__(self, text: str, *, class_name: str = "", hint: str = "") -> None:
        super().__init__(text, class_name=class_name, hint=hint or advice_on_refusal(text))


@_java_exception("javax.security.sasl.SaslException")
class SaslError(RemoteError):
    """Failure of a login, or a login message out of order."""


@_java_exception("org.apache.hadoop.hdfs.protocol.UnregisteredNodeException")
class UnregisteredNodeError(RemoteError):
    """Refusal of a caller that is not registered at the NameNode as a backup node."""


@_java_exception("org.apache.hadoop.ha.HealthCheckFailedException")
class HealthCheckFailedError(RemoteError):
    """Response of an unhealthy NameNode to a health check; its failover controller then leaves the election."""


@_java_exception("org.apache.hadoop.ha.ServiceFailedException")
class ServiceFailedError(RemoteError):
    """Failure of a NameNode to change its state, or of a failover controller to cause the change."""


# ---- the call itself ----


@_java_exception("org.apache.hadoop.ipc.RpcServerException")
class RpcServerError(RemoteError):
    """Failure of the server to accept a call."""


@_java_exception("org.apache.hadoop.ipc.RpcNoSuchMethodException")
class NoSuchRpcMethodError(RemoteError):
    """A call of a method that the server's protocol does not have."""

    default_hint = "The other side's release is too old, or too new, for this call."


@_java_exception("org.apache.hadoop.ipc.RpcNoSuchProtocolException")
class NoSuchProtocolError(RemoteError):
    """A call in a protocol that the server does not serve."""

    default_hint = "Check that the address belongs to the right kind of server."


@_java_exception("org.apache.hadoop.ipc.RPC$VersionMismatch")
class VersionMismatchError(RemoteError):
    """A call in a protocol version that differs from the server's version."""


# ---- the namespace ----


@_java_exception("org.apache.hadoop.hdfs.server.common.IncorrectVersionException")
class IncorrectVersionError(RemoteError):
    """Refusal of a caller whose layout version differs from the version that the server expects."""

    @property
    def expected(self) -> int | None:
        """The layout version that the server expects; None if the message does not name it."""
        found = _EXPECTED_LAYOUT.search(self.text)
        return None if found is None else int(found[1])


@_java_exception("java.lang.UnsupportedOperationException")
class UnsupportedOperationRemoteError(RemoteError):
    """A call of an operation that the server does not support."""


# ---- journals ----


@_java_exception("org.apache.hadoop.hdfs.qjournal.protocol.JournalNotFormattedException")
class JournalNotFormattedError(RemoteError):
    """A call about a journal that the JournalNode does not have."""

    default_hint = (
        "Check that the JournalNode's disk is mounted. If the journal is really lost, `checkpointer journalnode format "
        "--from-peers` copies it from the other JournalNodes; the NameNode formats only a new journal."
    )


@_java_exception("org.apache.hadoop.hdfs.qjournal.protocol.JournalOutOfSyncException")
class JournalOutOfSyncError(RemoteError):
    """Refusal of a writer's data by a JournalNode that missed earlier data."""

    default_hint = "Begin a new segment: the JournalNode participates again from then on."


@_java_exception("org.apache.hadoop.hdfs.qjournal.server.JournaledEditsCache$CacheMissException")
class EditsCacheMissError(RemoteError):
    """A request for transactions that the JournalNode's cache does not contain.

    `missing` is the number of transactions before the first cached transaction; 0 if unknown.
    """

    default_hint = "Read the segments over HTTP, or increase dfs.journalnode.edit-cache-size.bytes on the JournalNodes."

    def __init__(self, text: str, *, class_name: str = "", hint: str = "", missing: int = 0) -> None:
        super().__init__(text, class_name=class_name, hint=hint)
        self.missing = missing


@_java_exception("org.apache.hadoop.hdfs.qjournal.server.NewerTxnIdException")
class NewerTxidError(RemoteError):
    """A request for transactions after the newest transaction of a JournalNode that lags."""

    default_hint = "Ask the other JournalNodes."


@_java_exception("org.apache.hadoop.hdfs.server.common.InconsistentFSStateException")
class InconsistentStorageError(RemoteError):
    """Failure of a call, because a storage directory of the server is in an inconsistent state."""


# ---- the server's own checks ----


@_java_exception("java.lang.IllegalArgumentException")
class IllegalArgumentRemoteError(RemoteError):
    """A call with an invalid argument."""


@_java_exception("java.lang.IllegalStateException")
class IllegalStateError(RemoteError):
    """A call that the server's state does not allow."""


@_java_exception("java.lang.AssertionError")
class AssertionRemoteError(RemoteError):
    """Failure of a call, because the server is in a state that the protocol excludes."""
