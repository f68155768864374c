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
    reason="any method but simple; Kerberos and tokens come with a later version",
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


def rpc_user(configuration: Configuration) -> str:
    """`hadoop.user.name`, or the user that this process runs as.

    Raises:
        ConfigurationError: hadoop.security.authentication asks for more than a name.
    """
    method = AUTHENTICATION.read(configuration).lower()
    if method not in ("", "simple"):
        problem = f"is {method}: this version calls NameNodes with simple authentication only"
        raise ConfigurationError([configuration.fault(AUTHENTICATION.name, problem)])
    return USER_NAME.read(configuration) or process_user()
