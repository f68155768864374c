"""Parses numbers, times, sizes and switches in Hadoop's configuration, and formats durations for people.

The parsers raise ValueError for invalid text.
"""

from __future__ import annotations

import ipaddress
import math
import re
import time

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50, "e": 60}
_TIME = re.compile(r"([+-]?[0-9]+)(ns|us|ms|s|m|h|d)?", re.IGNORECASE)
_SIZE = re.compile(r"([+-]?[0-9]+)([kmgtpe]?)", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,\n]")
_DECIMAL = re.compile(r"[+-]?[0-9]+")
_HEXADECIMAL = re.compile(r"(-?)0x([0-9a-f]+)", re.IGNORECASE)


def duration(seconds: float) -> str:
    """Format a duration: "40 s", "3 min 40 s", or "26 h 5 min" without seconds."""
    total = max(0, round(seconds))
    hours, minutes = divmod(total // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {total % 60} s" if minutes else f"{total} s"


def clock_text(at: float, now: float) -> str:
    """Return the local time of `at`, with the date if it is not today; both are in seconds since the epoch."""
    then = time.localtime(at)
    today = then[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)


def ago_text(at: float | None, now: float) -> str:
    """Describe how long ago `at` was; both times are in seconds since the epoch."""
    return "never" if at is None else f"{duration(now - at)} ago"


def counted(number: int, noun: str, spec: str = "") -> str:
    """Return a count with its noun: "1 segment", "2 segments", "0 directories".

    Args:
        spec: format of the number, such as "," for groups of three digits.
    """
    return f"{number:{spec}} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the regular plural of an English noun."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def parse_int(text: str) -> int:
    """Parse a decimal number, or a hexadecimal number with `0x`."""
    if (match := _HEXADECIMAL.fullmatch(text)) is not None:
        return _long(int(match[1] + match[2], 16))
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError("is not an integer")
    return _long(int(text))


def parse_count(text: str) -> int:
    """Parse a 32-bit number as `parse_int` does (Configuration.getInt)."""
    number = parse_int(text)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError("does not fit 32 bits")
    return number


def parse_float(text: str) -> float:
    """Parse a finite decimal number."""
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", text, re.IGNORECASE) is None:
        raise ValueError("is not a number")
    number = float(text)
    if math.isinf(number):
        raise ValueError("is too large")
    return number


def parse_list(text: str) -> list[str]:
    """Return the trimmed, non-empty items of a list; commas or line breaks separate them, as in Hadoop 3
    (StringUtils.getTrimmedStrings).
    """
    return [item for item in (part.strip() for part in _SEPARATOR.split(text)) if item]


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse comma-separated addresses and networks such as 10.1.0.0/16."""
    try:
        return tuple(ipaddress.ip_network(name.strip()) for name in text.split(","))
    except ValueError as fault:
        raise ValueError("is not a list of addresses and networks") from fault


def parse_bool(text: str) -> bool:
    """Parse `true` or `false` in any case."""
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return lowered == "true"


def parse_time(text: str, unit: str) -> float:
    """Parse a time in seconds; a number without a suffix (ns, us, ms, s, m, h, d) is in `unit`."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("is not a time: expected an integer, followed by ns, us, ms, s, m, h, d or nothing")
    return _long(int(match[1])) * _UNIT_SECONDS[(match[2] or unit).lower()]


def parse_limit(text: str, unit: str) -> float:
    """Parse a time limit in seconds; 0 or less means no limit, and the result is infinity."""
    seconds = parse_time(text, unit)
    return seconds if seconds > 0 else math.inf


def parse_size(text: str) -> int:
    """Parse a size in bytes; the suffixes k, m, g, t, p and e are powers of 1024."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("is not a size: expected an integer, followed by k, m, g, t, p, e or nothing")
    return _long(int(match[1]) << _SIZE_SHIFTS[match[2].lower()])


def parse_positive_size(text: str) -> int:
    """Parse a size in bytes as `parse_size` does; the size must be at least 1."""
    size = parse_size(text)
    if size <= 0:
        raise ValueError("is not positive")
    return size


def _long(number: int) -> int:
    """Return the number, which must fit a Java long."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("does not fit 64 bits")
    return number
