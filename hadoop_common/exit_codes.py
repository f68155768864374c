"""Exit codes of the commands and the daemon; `check` and `zkfc` have separate codes."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit code of a process, with its meaning for the user."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    SUCCESS = 0, "done, or nothing to do"
    FAILURE = 1, "failed"
    USAGE = 2, "usage or configuration error"
    BAD_IMAGE = 3, "image damaged"
    BAD_EDITS = 4, "edits damaged or not matching the image"
    UNSUPPORTED = 5, "not supported by this version"
    STORAGE = 6, "storage directory unusable"
    TRANSFER = 7, "transfer or RPC call failed"
    NOT_ACCEPTED = 8, "checkpoint made, but no NameNode accepted it"
