"""Hides passwords and other secrets in values of configuration keys, for messages, logs and pages."""

from __future__ import annotations

import re

from hadoop_common.addresses import without_password

HIDDEN = "(hidden)"
# patterns of hadoop.security.sensitive-config-keys, and BookKeeper's digestPw
_SECRET = re.compile(
    r"password|secret|digestpw|zk\.auth|zookeeper\.auth|ssl\.keystore\.pass$|credential$|token$|account\.key",
    re.IGNORECASE,
)


def shown_value(key: str, value: str) -> str:
    """Return the value of a key for messages and lists, with secrets, and passwords in URLs, hidden."""
    return HIDDEN if _SECRET.search(key) else without_password(value)
