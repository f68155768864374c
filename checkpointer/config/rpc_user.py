"""Whom calls to other servers are made as."""

from __future__ import annotations

import os
import pwd

from checkpointer.config.keys import AUTHENTICATION, USER_NAME
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
    method = AUTHENTICATION.read(configuration).lower()
    if method not in ("", "simple"):
        problem = f"is {method}: this version calls NameNodes with simple authentication only"
        raise ConfigurationError([configuration.fault(AUTHENTICATION.name, problem)])
    return USER_NAME.read(configuration) or process_user()
