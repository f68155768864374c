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
    reason="any method but simple and kerberos; a JournalNode, the stub and the backup role, which others call, "
    "take simple only",
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
    _check_method(configuration, ("", "simple", "kerberos"), "is not simple or kerberos")
    return USER_NAME.read(configuration) or process_user()


def rpc_user(configuration: Configuration) -> str:
    """The same for those whose own servers take no Kerberos.

    Raises:
        ConfigurationError: hadoop.security.authentication asks for more than a name.
    """
    _check_method(configuration, ("", "simple"), "is not simple, and only a secondary or a standby takes kerberos")
    return caller(configuration)


def _check_method(configuration: Configuration, known: tuple[str, ...], problem: str) -> None:
    if AUTHENTICATION.read(configuration).lower() not in known:
        raise ConfigurationError([configuration.fault(AUTHENTICATION.name, problem)])
