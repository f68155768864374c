"""Whom calls to other servers are made as."""

from __future__ import annotations

import os
import pwd

from hadoop_common.config_key import ConfigKey, keys_in, text
from hadoop_common.configuration import Configuration, ConfigurationError

AUTHENTICATION = ConfigKey(
    "hadoop.security.authentication",
    "simple",
    text("method"),
    "How RPC calls authenticate.",
    reason="any method but simple and kerberos",
)
USER_NAME = ConfigKey(
    "hadoop.user.name",
    "${env.HADOOP_USER_NAME:-}",
    text("name"),
    "The user that calls are made as; empty is the one this process runs as.",
)
USER_KEYS = keys_in(globals())


def process_user() -> str:
    """The user that this process runs as."""
    return pwd.getpwuid(os.geteuid()).pw_name


def caller(configuration: Configuration) -> str:
    """`hadoop.user.name`, or the user that this process runs as: whom calls are made as without Kerberos.

    Raises:
        ConfigurationError: hadoop.security.authentication is no method that is known.
    """
    if AUTHENTICATION.read(configuration).lower() not in ("", "simple", "kerberos"):
        raise ConfigurationError([configuration.fault(AUTHENTICATION.name, "is not simple or kerberos")])
    return USER_NAME.read(configuration) or process_user()
