"""Log records as JSON, one object per line, for log collectors."""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import Any

_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_MAX_DEPTH = 8


class JsonFormatter(logging.Formatter):
    """Formatter of a record as `{"time", "level", "logger", "thread", "message"}`, with `exception` if there is one.

    The fields of the caller's `extra={"txid": 7, "phase": "save", ...}` follow under the same names: JSON values
    unchanged, others as text. The formatter appends an underscore to a name that is already used.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        for name, value in vars(record).items():
            if name not in _OF_EVERY_RECORD:
                fields[f"{name}_" if name in fields else name] = _plain(value)
        # JSON does not escape all characters that terminals interpret
        line = json.dumps(fields, ensure_ascii=False)
        return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)


def _plain(value: Any, depth: int = 0) -> Any:
    """Convert `value` to JSON types; other types and values nested too deep become text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    return str(value)
