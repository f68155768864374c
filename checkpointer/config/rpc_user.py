"""Whom calls to other servers are made as."""

from __future__ import annotations

import os
import pwd

from hadoop_common.configuration import Configuration, ConfigurationError

__all__ = ["process_user", "rpc_user"]


def process_user() -> str:
    """The user that this process runs as."""
    return pwd.getpwuid(os.geteuid()).pw_name


def rpc_user(configuration: Configuration) -> str:
    """`hadoop.user.name`, or the user that this process runs as.

    Raises:
        ConfigurationError: hadoop.security.authentication asks for more than a name.
    """
    method = configuration.get("hadoop.security.authentication", "").lower()
    if method not in ("", "simple"):
        problem = f"is {method}: this version calls NameNodes with simple authentication only"
        raise ConfigurationError([configuration.fault("hadoop.security.authentication", problem)])
    return configuration.get("hadoop.user.name", "") or process_user()
