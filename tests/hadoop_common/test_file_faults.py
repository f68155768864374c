"""System errors as sentences: the file, what failed, why, and what to do."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from hadoop_common.errors import StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.file_faults import FileFaultError, as_hdfs_error, error_text, file_faults, hint_for, network_reason


def fault(code: int, *names: str) -> OSError:
    return OSError(code, os.strerror(code), *([names[0]] if names else []), *([None, names[1]] if names[1:] else []))


def test_error_names_the_file_and_the_operation() -> None:
    with pytest.raises(FileFaultError) as caught, file_faults(Path("/a/b"), "cannot be synced"):
        raise fault(errno.EIO)
    error = caught.value
    assert str(error) == "/a/b cannot be synced: Input/output error"
    assert (error.errno, error.filename, error.exit_code) == (errno.EIO, "/a/b", ExitCode.STORAGE)
    assert "dmesg" in error.hint
    # so that handlers of OSError and of HdfsError both catch the error
    assert isinstance(error, OSError)
    assert isinstance(error, StorageError)


def test_innermost_context_determines_the_message() -> None:
    with (
        pytest.raises(FileFaultError, match=r"^/a cannot be read: No space"),
        file_faults(Path("/c"), "cannot be copied"),
        file_faults(Path("/a"), "cannot be read"),
    ):
        raise fault(errno.ENOSPC)


@pytest.mark.parametrize("kind", [FileNotFoundError, FileExistsError])
def test_missing_and_existing_file_errors_are_not_translated(kind: type[OSError]) -> None:
    with pytest.raises(kind) as caught, file_faults(Path("/a"), "cannot be read"):
        raise fault(errno.ENOENT if kind is FileNotFoundError else errno.EEXIST, "/a")
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (fault(errno.EIO, "/a"), "/a cannot be used: Input/output error", "dmesg"),
        (fault(errno.ENOSPC, "/a", "/b"), "/a cannot be given the name /b: No space left on device", "Free space"),
        (fault(errno.ELOOP, "/a"), "/a cannot be used: Too many levels of symbolic links", "Check the path"),
        (fault(errno.EROFS, "/a"), "/a cannot be used: Read-only file system", "read-only"),
        (fault(errno.EMFILE, "/a"), "/a cannot be used: Too many open files", "ulimit"),
        (fault(errno.EACCES, "/a"), "/a cannot be used: Permission denied", "access"),
        (fault(errno.ENOSPC), "access to a file or to standard output failed: No space left on device", "Free space"),
    ],
)
def test_untranslated_os_error_gets_a_message_and_a_hint(error: OSError, message: str, hint: str) -> None:
    known = as_hdfs_error(error)
    assert known is not None
    assert (known.message, known.exit_code) == (message, ExitCode.STORAGE)
    assert hint in known.hint


def test_permission_error_does_not_get_the_hint_about_space() -> None:
    assert hint_for(fault(errno.ENOSPC, "/a"), "Free space.") == "Free space."
    assert hint_for(None, "Free space.") == "Free space."
    denied = StorageError("x")
    denied.__cause__ = fault(errno.EACCES, "/a")
    for error in (denied, FileFaultError(fault(errno.EROFS), "/a", "cannot be written")):
        assert hint_for(error, "Free space.") not in ("", "Free space.")


def test_network_errors_have_their_own_exit_code() -> None:
    for error in (ConnectionResetError(errno.ECONNRESET, "reset"), TimeoutError("late"), socket.gaierror(-2, "name")):
        known = as_hdfs_error(error)
        assert known is not None
        assert known.exit_code == ExitCode.TRANSFER


@pytest.mark.parametrize("error", [ValueError("x"), OSError("of a library"), fault(errno.EBADF), fault(errno.ENOTSOCK)])
def test_program_errors_are_not_system_errors(error: Exception) -> None:
    assert as_hdfs_error(error) is None
    assert error_text(error) == (getattr(error, "strerror", None) or str(error))


def test_error_text_omits_a_file_that_is_already_named() -> None:
    assert error_text(fault(errno.EIO, "/a"), Path("/a")) == "Input/output error"
    assert error_text(fault(errno.EIO, "/a"), Path("/b")) == "/a cannot be used: Input/output error"
    assert (
        error_text(FileFaultError(fault(errno.EIO), "/a", "cannot be read")) == "/a cannot be read: Input/output error"
    )


def test_network_reason_of_an_error_without_a_cause() -> None:
    assert network_reason(ValueError("a bad answer")) == "a bad answer"
