"""The user name for calls to other servers."""

from __future__ import annotations

from hadoop_common.config_key import ConfigKey, keys_in, text
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.process_user import process_user

AUTHENTICATION = ConfigKey(
    "hadoop.security.authentication",
    "simple",
    text("method"),
    "Authentication method of RPC calls.",
    reason="any method but simple and kerberos",
)
USER_NAME = ConfigKey(
    "hadoop.user.name",
    "${env.HADOOP_USER_NAME:-}",
    text("name"),
    "User name that is sent with calls; if empty, the user of this process.",
)
USER_KEYS = keys_in(globals())


def configured_user(configuration: Configuration) -> str:
    """Return `hadoop.user.name`, or the user of this process: the user name in calls if the cluster does not use
    Kerberos.

    Raises:
        ConfigurationError: hadoop.security.authentication names an unknown method.
    """
    if AUTHENTICATION.read(configuration).lower() not in ("", "simple", "kerberos"):
        raise ConfigurationError([configuration.fault(AUTHENTICATION.name, "is not simple or kerberos")])
    return USER_NAME.read(configuration) or process_user()
