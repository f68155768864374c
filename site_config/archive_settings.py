"""Settings of the archive that a daemon fills, and its retention rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hadoop_common.addresses import without_password
from hadoop_common.config_key import SECONDS, SWITCH, ConfigKey, ValueType, bound, keys_in, text
from hadoop_common.configuration import Configuration

_DAY = 86_400_000
_UNITS = {"h": _DAY // 24, "d": _DAY, "w": 7 * _DAY, "m": 30 * _DAY, "y": 365 * _DAY}
_RULE = re.compile(r"(all|hourly|daily|weekly|monthly|yearly)\s+for\s+([0-9]+)\s*([hdwmy])", re.IGNORECASE)
_PERIODS = {"hourly": "%Y-%m-%d %H", "daily": "%Y-%m-%d", "weekly": "%G-%V", "monthly": "%Y-%m", "yearly": "%Y"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A retention rule: for `age` ms, keep one moment per `period`, a pattern of strftime ("" for every
    transaction).
    """

    period: str
    age: int


def parse_rules(rules: str) -> tuple[Rule, ...]:
    """Parse rules such as `all for 7d, daily for 90d`; an empty string contains no rules.

    Raises:
        ValueError: a rule is malformed.
    """
    found = []
    for part in rules.split(",") if rules.strip() else ():
        match = _RULE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part.strip()!r} is not a retention rule: write for example `all for 7d, daily for 90d`")
        word = match[1].lower()
        found.append(Rule("" if word == "all" else _PERIODS[word], int(match[2]) * _UNITS[match[3].lower()]))
    return tuple(found)


def _read_rules(settings: Configuration, name: str, default: str) -> tuple[Rule, ...]:
    return settings.parsed(name, default, parse_rules) if settings.get(name, default) else ()


DIR = ConfigKey(
    "checkpointer.archive.dir",
    "",
    text("directory or URL"),
    "The archive of base images and all later edits, from which any moment can be restored; unset: no archive. "
    "Specific to the checkpointer.",
)
KEY_FILE = ConfigKey(
    "checkpointer.archive.key-file",
    "",
    text("file"),
    "Key that encrypts the archive, 64 hexadecimal digits; unset: not encrypted. Specific to the checkpointer.",
)
RESTORE_TARGET = ConfigKey(
    "checkpointer.archive.restore-target",
    "10m",
    SECONDS,
    "Maximum duration of the replay during a restore. The daemon archives another base image when, at this daemon's "
    "speed, a replay of the edits since the last image would take longer. Specific to the checkpointer.",
    least=0,
)
KEEP = ConfigKey(
    "checkpointer.archive.keep",
    "",
    ValueType("rules", _read_rules),
    "Retention rules, such as `all for 7d, daily for 90d, monthly for 5y`; unset: everything is kept. "
    "Specific to the checkpointer.",
)
IMMUTABLE = ConfigKey(
    "checkpointer.archive.immutable",
    "false",
    SWITCH,
    "Whether the daemon only appends to the archive, for stores with an object lock; checkpointer.archive.keep then "
    "has no "
    "effect. Specific to the checkpointer.",
)
PERIOD = ConfigKey(
    "checkpointer.archive.period",
    "1s",
    SECONDS,
    "Interval at which new edits are archived. Specific to the checkpointer.",
    least=0.1,
)
LAG_ALARM = ConfigKey(
    "checkpointer.archive.lag-alarm",
    "300s",
    SECONDS,
    "Time for which the archive may be incomplete before an alarm is raised; 0: no alarm. Specific to the "
    "checkpointer.",
    least=0,
)
ARCHIVE_KEYS = keys_in(globals())


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """Settings of a daemon's archive. Times are in seconds.

    Attributes:
        directory: directory or URL, "" if no archive is configured.
        key_file: file with the key, "" if the archive is not encrypted.
        keep: retention rules; without rules, the archive keeps everything.
        lag_alarm: time without progress before an alarm; 0 disables the alarm.
    """

    directory: str = bound(DIR, scoped=True)
    key_file: str = bound(KEY_FILE, scoped=True)
    restore_target: float = bound(RESTORE_TARGET)
    keep: tuple[Rule, ...] = bound(KEEP)
    immutable: bool = bound(IMMUTABLE)
    period: float = bound(PERIOD)
    lag_alarm: float = bound(LAG_ALARM)

    @property
    def location(self) -> str:
        """The directory or URL for messages, without a password."""
        return without_password(self.directory)
