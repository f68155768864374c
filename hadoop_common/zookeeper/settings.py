"""What Hadoop's configuration says of ZooKeeper: the ensemble of `ha.zookeeper.*`, and the login at any ensemble."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hadoop_common.config_key import ABSENT, MILLISECONDS, OPTIONAL_SWITCH, SWITCH, ConfigKey, text
from hadoop_common.configuration import Configuration, ConfigurationError, local_path
from hadoop_common.tls.client_stores import ClientStores
from hadoop_common.tls.passwords import Passwords
from hadoop_common.zookeeper.address import (
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
    "The ZooKeeper that failover controllers elect by, and daemons agree by on the leader; `/chroot` may stand behind.",
)
SESSION_TIMEOUT = ConfigKey(
    "ha.zookeeper.session-timeout.ms",
    "10000",
    MILLISECONDS,
    "After it another one takes the place of a controller or leader that is gone, or is frozen.",
    least=0.1,
    release2="5000",
)
ACL = ConfigKey(
    "ha.zookeeper.acl",
    "world:anyone:rwcda",
    text("ACL"),
    "Of the znodes that are made there; @FILE is read from there.",
)
AUTH = ConfigKey("ha.zookeeper.auth", "", text("credentials"), "What a session there shows; @FILE is read from there.")
ENSEMBLE_KEYS = (QUORUM, SESSION_TIMEOUT, ACL, AUTH)

SSL = ConfigKey(
    "hadoop.zk.ssl.enabled",
    "false",
    OPTIONAL_SWITCH,
    "Whether ZooKeeper is spoken to over TLS; unset leaves it to dfs.ha.zkfc.client.ssl.enabled.",
    release2=ABSENT,
)
CLIENT_SSL = ConfigKey(
    "dfs.ha.zkfc.client.ssl.enabled", "false", SWITCH, "The same where hadoop.zk.ssl.enabled is unset.", release2=ABSENT
)
KEY_STORE = ConfigKey(
    "hadoop.zk.ssl.keystore.location", "", text("file"), "Our key there: JKS, PKCS12 or PEM.", release2=ABSENT
)
KEY_PASSWORD = ConfigKey(
    "hadoop.zk.ssl.keystore.password",
    "",
    text("password"),
    "Of that store; credential providers are asked first.",
    release2=ABSENT,
)
TRUST_STORE = ConfigKey(
    "hadoop.zk.ssl.truststore.location",
    "",
    text("file"),
    "Whom we trust there; unset: whom the system trusts.",
    release2=ABSENT,
)
TRUST_PASSWORD = ConfigKey("hadoop.zk.ssl.truststore.password", "", text("password"), "Of that store.", release2=ABSENT)
SASL = ConfigKey(
    "checkpointer.zookeeper.sasl.mechanism",
    "",
    text("mechanism"),
    "How sessions with ZooKeeper log in: `DIGEST-MD5`, or `GSSAPI` by Kerberos. Specific to the checkpointer.",
)
SASL_USER = ConfigKey(
    "checkpointer.zookeeper.sasl.user",
    "",
    text("user"),
    "Who logs in; for GSSAPI a principal. Specific to the checkpointer.",
)
SASL_KEYTAB = ConfigKey(
    "checkpointer.zookeeper.sasl.keytab",
    "",
    text("file"),
    "Of that principal; unset uses the cache of tickets. Specific to the checkpointer.",
)
SASL_PASSWORD = ConfigKey(
    "checkpointer.zookeeper.sasl.password",
    "",
    text("password"),
    "For DIGEST-MD5; @FILE is read from there. Specific to the checkpointer.",
)
SASL_SERVICE = ConfigKey(
    "checkpointer.zookeeper.sasl.service",
    "zookeeper",
    text("name"),
    "The first part of the servers' principal, for GSSAPI. Specific to the checkpointer.",
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
    """The ensemble of `ha.zookeeper.*`, None where none is named.

    Args:
        scoped: the name by which a key is set for this nameservice and NameNode.

    Raises:
        ConfigurationError: a value is none that the key can have.
    """
    hosts = QUORUM.read(settings, scoped(QUORUM))
    if not hosts:
        return None
    acl, auth = scoped(ACL), scoped(AUTH)
    return ZooKeeperAddress(
        hosts,
        SESSION_TIMEOUT.read(settings, scoped(SESSION_TIMEOUT)),
        # one that is set to nothing leaves everything to whoever made the znode (ActiveStandbyElector)
        taken(settings, ACL, parse_acl, acl) or (("auth", "", "cdrwa"),),
        taken(settings, AUTH, parse_auth, auth),
        sasl_login(settings),
        client_stores(settings),
        named_by=scoped(QUORUM),
        auth_key=auth,
    )


def sasl_login(settings: Configuration) -> SaslLogin | None:
    """How sessions log in by SASL, None where they do not.

    Raises:
        ConfigurationError: a mechanism that is not known, or DIGEST-MD5 without a user.
    """
    mechanism = SASL.read(settings).upper()
    if not mechanism:
        return None
    if mechanism not in (DIGEST_MD5, GSSAPI):
        raise ConfigurationError([settings.fault(SASL.name, f"is neither {DIGEST_MD5} nor {GSSAPI}")])
    user = SASL_USER.read(settings)
    if mechanism == DIGEST_MD5 and not user:
        raise ConfigurationError([settings.fault(SASL_USER.name, f"is not set, and {DIGEST_MD5} needs a user")])
    password = taken(settings, SASL_PASSWORD, resolved)
    return SaslLogin(mechanism, user, password, _path(settings, SASL_KEYTAB), SASL_SERVICE.read(settings))


def client_stores(settings: Configuration) -> ClientStores | None:
    """The stores of TLS, None where ZooKeeper is spoken to without it.

    Raises:
        ConfigurationError: a location is no path; TlsSetupError: a provider of passwords cannot be read.
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


def taken(settings: Configuration, key: ConfigKey[str], parse: Callable[[str], T], name: str = "") -> T:
    """What `parse` makes of the value of `key`; its ValueError becomes a ConfigurationError that names the key."""
    try:
        return parse(key.read(settings, name))
    except ValueError as fault:
        raise ConfigurationError([settings.fault(name or key.name, str(fault))]) from fault


def _path(settings: Configuration, key: ConfigKey[str]) -> Path | None:
    return taken(settings, key, lambda value: local_path(value) if value else None)
