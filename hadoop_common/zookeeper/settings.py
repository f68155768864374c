"""ZooKeeper in Hadoop's configuration: the ensemble of `ha.zookeeper.*`, and the login to any ensemble."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hadoop_common.config_key import ABSENT, MILLISECONDS, OPTIONAL_SWITCH, SWITCH, ConfigKey, text
from hadoop_common.configuration import Configuration, ConfigurationError, local_path
from hadoop_common.tls.errors import TlsSetupError
from hadoop_common.tls.passwords import PROVIDERS, Passwords
from hadoop_common.tls.settings import ClientStores
from hadoop_common.zookeeper.session import (
    DIGEST_MD5,
    GSSAPI,
    SaslLogin,
    ZooKeeperAddress,
    parse_acl,
    parse_auth,
    resolved,
)

T = TypeVar("T")

QUORUM = ConfigKey(
    "ha.zookeeper.quorum",
    "",
    text("hosts"),
    "The ZooKeeper ensemble for failover controllers and for the daemons' leader election; `/chroot` may follow.",
)
SESSION_TIMEOUT = ConfigKey(
    "ha.zookeeper.session-timeout.ms",
    "10000",
    MILLISECONDS,
    "Session timeout: after this time without contact, another controller or leader takes over.",
    least=0.1,
    release2="5000",
)
ACL = ConfigKey(
    "ha.zookeeper.acl", "world:anyone:rwcda", text("ACL"), "ACL of new znodes, or @FILE to read the ACL from FILE."
)
AUTH = ConfigKey(
    "ha.zookeeper.auth",
    "",
    text("credentials"),
    "Credentials for ZooKeeper sessions, or @FILE to read them from FILE. Credential providers are searched first.",
)
ENSEMBLE_KEYS = (QUORUM, SESSION_TIMEOUT, ACL, AUTH)

SSL = ConfigKey(
    "hadoop.zk.ssl.enabled",
    "false",
    OPTIONAL_SWITCH,
    "Whether connections to ZooKeeper use TLS; if unset, dfs.ha.zkfc.client.ssl.enabled applies.",
    release2=ABSENT,
)
CLIENT_SSL = ConfigKey(
    "dfs.ha.zkfc.client.ssl.enabled",
    "false",
    SWITCH,
    "Whether connections to ZooKeeper use TLS if hadoop.zk.ssl.enabled is unset.",
    release2=ABSENT,
)
KEY_STORE = ConfigKey(
    "hadoop.zk.ssl.keystore.location",
    "",
    text("file"),
    "Key store for connections to ZooKeeper: JKS, PKCS12 or PEM.",
    release2=ABSENT,
)
KEY_PASSWORD = ConfigKey(
    "hadoop.zk.ssl.keystore.password",
    "",
    text("password"),
    "Password of the key store; credential providers are searched first.",
    release2=ABSENT,
)
TRUST_STORE = ConfigKey(
    "hadoop.zk.ssl.truststore.location",
    "",
    text("file"),
    "Trust store for connections to ZooKeeper; if unset, the system's authorities are trusted.",
    release2=ABSENT,
)
TRUST_PASSWORD = ConfigKey(
    "hadoop.zk.ssl.truststore.password", "", text("password"), "Password of the trust store.", release2=ABSENT
)
SASL = ConfigKey(
    "checkpointer.zookeeper.sasl.mechanism",
    "",
    text("mechanism"),
    "SASL mechanism of ZooKeeper sessions: `DIGEST-MD5`, or `GSSAPI` (Kerberos). Specific to the checkpointer.",
)
SASL_USER = ConfigKey(
    "checkpointer.zookeeper.sasl.user",
    "",
    text("user"),
    "User of the login; for GSSAPI a principal. Specific to the checkpointer.",
)
SASL_KEYTAB = ConfigKey(
    "checkpointer.zookeeper.sasl.keytab",
    "",
    text("file"),
    "Keytab of the principal; if unset, the ticket cache is used. Specific to the checkpointer.",
)
SASL_PASSWORD = ConfigKey(
    "checkpointer.zookeeper.sasl.password",
    "",
    text("password"),
    "Password for DIGEST-MD5, or @FILE to read the password from FILE. Specific to the checkpointer.",
)
SASL_SERVICE = ConfigKey(
    "checkpointer.zookeeper.sasl.service",
    "zookeeper",
    text("name"),
    "For GSSAPI, the first part of the servers' principal. Specific to the checkpointer.",
)
LOGIN_KEYS = (
    SSL,
    CLIENT_SSL,
    KEY_STORE,
    KEY_PASSWORD,
    TRUST_STORE,
    TRUST_PASSWORD,
    SASL,
    SASL_USER,
    SASL_KEYTAB,
    SASL_PASSWORD,
    SASL_SERVICE,
)


def zookeeper_address(settings: Configuration, scoped: Callable[[ConfigKey[Any]], str]) -> ZooKeeperAddress | None:
    """Read the ensemble of `ha.zookeeper.*`; None if it is not configured.

    Args:
        scoped: returns the name of a key for this nameservice and NameNode.

    Raises:
        ConfigurationError: a value is not allowed.
    """
    hosts = QUORUM.read(settings, scoped(QUORUM))
    if not hosts:
        return None
    acl, auth = scoped(ACL), scoped(AUTH)
    return ZooKeeperAddress(
        hosts,
        SESSION_TIMEOUT.read(settings, scoped(SESSION_TIMEOUT)),
        # with an empty ACL, the creator of the znode receives all rights (ActiveStandbyElector)
        parsed_value(settings, ACL, parse_acl, acl) or (("auth", "", "cdrwa"),),
        _credentials(settings, auth),
        sasl_login(settings),
        client_stores(settings),
        named_by=scoped(QUORUM),
        auth_key=auth,
    )


def _credentials(settings: Configuration, name: str) -> tuple[tuple[str, str], ...]:
    """Return the credentials of sessions, from a credential provider if it has them (SecurityUtil.getZKAuthInfos).

    An unusable provider causes only a warning, because other services may use the provider.
    """
    stored = None
    try:
        stored = Passwords(settings, settings.folder or Path(), os.environ).stored(AUTH.name)
    except TlsSetupError as fault:
        if not AUTH.read(settings, name):
            settings.warn(settings.fault(PROVIDERS.name, f"cannot be searched for {AUTH.name}: {fault.message}"))
    if stored is None:
        return parsed_value(settings, AUTH, parse_auth, name)
    try:
        return parse_auth(stored)
    except ValueError as fault:
        raise ConfigurationError([settings.fault(PROVIDERS.name, f"has {AUTH.name}, which {fault}")]) from fault


def sasl_login(settings: Configuration) -> SaslLogin | None:
    """Read the SASL login of sessions; None if it is not configured.

    Raises:
        ConfigurationError: the mechanism is unknown, or DIGEST-MD5 lacks a user.
    """
    mechanism = SASL.read(settings).upper()
    if not mechanism:
        return None
    if mechanism not in (DIGEST_MD5, GSSAPI):
        raise ConfigurationError([settings.fault(SASL.name, f"is neither {DIGEST_MD5} nor {GSSAPI}")])
    user = SASL_USER.read(settings)
    if mechanism == DIGEST_MD5 and not user:
        raise ConfigurationError([settings.fault(SASL_USER.name, f"is not set, and {DIGEST_MD5} needs a user")])
    password = parsed_value(settings, SASL_PASSWORD, resolved)
    return SaslLogin(mechanism, user, password, _path(settings, SASL_KEYTAB), SASL_SERVICE.read(settings))


def client_stores(settings: Configuration) -> ClientStores | None:
    """Read the TLS stores; None if connections to ZooKeeper do not use TLS.

    Raises:
        ConfigurationError: a location is not a path.
        TlsSetupError: a credential provider cannot be read.
    """
    asked = SSL.read(settings) if SSL.name in settings else CLIENT_SSL.read(settings)
    if not asked:
        return None
    passwords = Passwords(settings, settings.folder or Path(), os.environ)
    return ClientStores(
        key_store=_path(settings, KEY_STORE),
        key_password=passwords.find(KEY_PASSWORD.name),
        trust_store=_path(settings, TRUST_STORE),
        trust_password=passwords.find(TRUST_PASSWORD.name),
        keys="hadoop.zk.ssl",
    )


def parsed_value(settings: Configuration, key: ConfigKey[str], parse: Callable[[str], T], name: str = "") -> T:
    """Parse the value of `key`; a ValueError becomes a ConfigurationError that names the key."""
    try:
        return parse(key.read(settings, name))
    except ValueError as fault:
        raise ConfigurationError([settings.fault(name or key.name, str(fault))]) from fault


def _path(settings: Configuration, key: ConfigKey[str]) -> Path | None:
    return parsed_value(settings, key, lambda value: local_path(value) if value else None)
