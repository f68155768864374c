"""One of Hadoop's configuration keys, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["ABSENT", "ConfigKey", "KeyStatus"]

ABSENT = "(absent)"


class KeyStatus(Enum):
    """What the checkpointer does about a key."""

    SUPPORTED = "supported"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key.

    Attributes:
        default: of Hadoop 3.4, "" for unset.
        unit: what a bare number counts in, or the kind of value.
        meaning: what the key does; for an ignored key what it does in Hadoop.
        status: SUPPORTED, IGNORED (setting it changes nothing), or REFUSED (any value but the default is a fault).
        reason: why it is ignored or refused; for a supported key which of its values are refused, if any.
        release2: the default of Hadoop 2.7 where it is another one; ABSENT where 2.7 has no such key.
    """

    name: str
    default: str
    unit: str
    meaning: str
    status: KeyStatus = KeyStatus.SUPPORTED
    reason: str = ""
    release2: str | None = None
