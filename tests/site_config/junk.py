"""Values that no configuration key accepts."""

from __future__ import annotations

JUNK = (
    "",
    " ",
    "x",
    "-1",
    "0",
    "1e400",
    "99999999999999999999",
    "80x0",
    "host:80x0",
    "host:99999",
    "hdfs://host:80x0",
    "hdfs://host:99999",
    "hdfs://[::1",
    "file:///a b%zz",
    "file:///a/%00",
    "file://[x",
    "qjournal://a;b",
    "qjournal://a:1;b:99999/j",
    "${unknown",
    "a,,b",
    "\0",
    "°",
)
