"""Describes operating system errors in one sentence: the file, what failed, why, and what to do next."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import ClassVar

from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.tls.errors import HandshakeError, tls_reason

FULL_DISK_HINT = "Free space on its disk, then try again."
_RIGHTS = "Give the user of this process access to the file, then try again."
_OPEN_FILES = "Raise the limit on open files (ulimit -n, LimitNOFILE), then try again."
_GONE = "Check the path; another process may have moved or removed it."
_DISK = "Check the disk and the system's log (dmesg), then try again."
_HINTS = {
    errno.ENOSPC: FULL_DISK_HINT,
    errno.EDQUOT: FULL_DISK_HINT,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: "Mount its disk for writing, or find the reason why it is read-only in the system's log.",
    errno.EMFILE: _OPEN_FILES,
    errno.ENFILE: _OPEN_FILES,
    errno.ENOENT: _GONE,
    errno.ENOTDIR: _GONE,
    errno.ELOOP: "Check the path: its symbolic links lead back to themselves.",
    errno.ENAMETOOLONG: "Check the path.",
    errno.EEXIST: "Move the existing file away, or specify another file.",
}
# errors whose remedy is the same for every operation
_CERTAIN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.ENFILE)
_NO_THREADS = "can't start new thread"
MORE_THREADS = "Allow this process more threads and memory (ulimit -u, ulimit -v, systemd's TasksMax)."
# only a bug in this program causes these errors
_MISTAKES = (errno.EBADF, errno.EFAULT, errno.ENOTSOCK)
_NETWORK = (ConnectionError, TimeoutError, socket.gaierror, socket.herror)


class FileFaultError(StorageError, OSError):
    """Failure to use a file or directory; also an OSError, for callers that can continue without the file."""

    def __init__(self, fault: OSError, path: str | PathLike[str], problem: str) -> None:
        super().__init__(f"{path} {problem}: {_reason(fault)}", hint=_hint(fault))
        self.errno, self.strerror, self.filename = fault.errno, fault.strerror, str(path)


class SpecialFileError(FileFaultError):
    """Refusal to write a file at the path of a device, FIFO or socket, which a rename would replace."""

    def __init__(self, path: str | PathLike[str]) -> None:
        fault = OSError(errno.EINVAL, "a file does not replace a device, FIFO or socket")
        super().__init__(fault, path, "cannot be written")
        self.hint = "Specify a regular file."


class NetworkFaultError(HdfsError):
    """Failure to make a connection, or the loss of a connection."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER


@contextmanager
def file_faults(path: PathLike[str], problem: str) -> Iterator[None]:
    """Turn an OSError about `path` into a FileFaultError; `problem`, such as "cannot be read", follows the path in the
    message.

    FileNotFoundError and FileExistsError propagate unchanged, because callers treat them as results, and their messages
    always name the file.
    """
    try:
        yield
    except (FileFaultError, FileNotFoundError, FileExistsError):
        raise
    except OSError as fault:
        raise FileFaultError(fault, path, problem) from fault


def as_hdfs_error(error: BaseException) -> HdfsError | None:
    """Return `error` as an error with cause and hint; None if it is a bug in this program."""
    if isinstance(error, HdfsError):
        return error
    if isinstance(error, MemoryError):
        return StorageError("not enough memory", hint="Free memory, or raise the process's limit (ulimit -v).")
    if isinstance(error, RuntimeError) and str(error) == _NO_THREADS:
        return HdfsError(f"this process fails: {_NO_THREADS}", hint=MORE_THREADS)
    if not isinstance(error, OSError) or error.errno in _MISTAKES:
        return None
    if isinstance(error, _NETWORK):
        return NetworkFaultError(f"the network fails: {_reason(error)}", hint="Check addresses and the network.")
    if error.filename is None:
        # an error without a number comes from a library, not from the system
        problem = f"access to a file or to standard output failed: {_reason(error)}"
        return None if error.errno is None else StorageError(problem, hint=_hint(error))
    if error.filename2 is not None:
        return FileFaultError(error, error.filename, f"cannot be given the name {error.filename2}")
    return FileFaultError(error, error.filename, "cannot be used")


def error_text(error: BaseException | None, path: PathLike[str] | None = None) -> str:
    """Return the message of `error` without the hint, for a message that already names `path`."""
    if isinstance(error, OSError) and (error.filename is None or Path(error.filename) == path):
        return _reason(error)
    known = None if error is None else as_hdfs_error(error)
    return str(error) if known is None else known.message


def hint_for(error: BaseException | None, otherwise: str) -> str:
    """Return the next step for an error with only one remedy, such as access rights or a higher limit on open files.

    Args:
        error: an error; its causes are also examined.
        otherwise: the next step for other errors.
    """
    while error is not None:
        if isinstance(error, SpecialFileError):
            return error.hint
        if isinstance(error, OSError) and error.errno in _CERTAIN:
            return _HINTS[error.errno]
        error = error.__cause__
    return otherwise


def network_reason(fault: BaseException) -> str:
    """Return the cause of a library's connection error in the system's words, such as "Connection refused"."""
    chain = _causes(fault)
    for each in chain:
        if isinstance(each, HandshakeError):
            return str(each)
        if isinstance(each, ssl.SSLError):
            return tls_reason(each)
        if isinstance(each, OSError) and each.strerror:
            return each.strerror
    if any("Timeout" in type(each).__name__ for each in chain):
        return "it took too long"
    return str(chain[-1]) or type(chain[-1]).__name__


def is_tls_fault(fault: BaseException) -> bool:
    """Return whether TLS is the cause of a library's connection error; the server may then be up and reachable."""
    return any(isinstance(each, HandshakeError | ssl.SSLError) for each in _causes(fault))


def _causes(fault: BaseException) -> list[BaseException]:
    """Return `fault` and its causes, nearest first."""
    chain = [fault]
    for each in chain:
        behind = (each.__cause__, each.__context__, getattr(each, "reason", None), *each.args)
        chain += [more for more in behind if isinstance(more, BaseException) and more not in chain]
    return chain


def _reason(fault: OSError) -> str:
    return fault.strerror or str(fault)


def _hint(fault: OSError) -> str:
    return _HINTS.get(fault.errno or 0, _DISK)
