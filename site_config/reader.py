"""The common part of the configuration readers of all programs: scoped keys, the node's own servers, access, Kerberos.

For a faulty key, the reader returns a substitute. It collects the faults, so that the caller can raise all of them at
the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from hadoop_common.access import AccessRules
from hadoop_common.config_key import ConfigKey, take_bound
from hadoop_common.configuration import Configuration, ConfigurationError, ConfigurationFault, FaultCollector
from hadoop_common.port_limits import PortLimits
from hadoop_common.tls.settings import HTTP_POLICY, WebAddresses, tls_config
from hadoop_rpc.user import configured_user
from site_config.access import access_rules
from site_config.addresses import Identity, address, scoped_key
from site_config.catalogue import refusals
from site_config.kerberos import KerberosSettings, ProcessKind, kerberos_settings

T = TypeVar("T")


class AddressKeys(NamedTuple):
    """The key of a server's address, and the key of the host to which the server binds instead, or `None` if there is
    none.
    """

    address: ConfigKey[str]
    bind_host: ConfigKey[str] | None = None


class SettingsReader:
    """A reader of the settings of the node `who`, which collects faults."""

    def __init__(self, settings: Configuration, faults: FaultCollector, who: Callable[[], Identity]) -> None:
        self.settings = settings
        self.faults = faults
        unknown = Identity()
        self.who = faults.take(who, unknown)
        # otherwise, keys of a nameservice cannot be found
        self.is_identified = self.who is not unknown

    def scoped(self, key: ConfigKey[Any]) -> str:
        """Return the most specific form of `key` that is set for this node."""
        return scoped_key(self.settings, key.name, self.who.nameservice, self.who.own_id)

    def get(self, key: ConfigKey[T], *, scoped: bool = False) -> T:
        """Return the value of `key`, or of its most specific form for this node."""
        return key.take(self.settings, self.faults, self.scoped(key) if scoped else "")

    def take(self, getter: Callable[[], T], fallback: T) -> T:
        """Return the result of `getter`, or `fallback` after a fault."""
        return self.faults.take(getter, fallback)

    def bound(self, kind: type) -> dict[str, Any]:
        """Return the values of all bound fields of a dataclass."""
        return take_bound(kind, self.settings, self.faults, self.scoped)

    def error(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError([self.settings.fault(key, problem)])

    def address(self, server: AddressKeys) -> tuple[str, int]:
        """Return the host and port of a server of this node.

        Raises:
            ConfigurationError: the value is not an address.
        """
        host, port = address(self.settings, self.scoped(server.address), server.address.port)
        bind_host = server.bind_host
        return ("" if bind_host is None else bind_host.read(self.settings, self.scoped(bind_host))) or host, port

    def web(self, http: AddressKeys, https: AddressKeys) -> WebAddresses:
        """Return the addresses of this node's web servers, according to dfs.http.policy."""
        policy = self.get(HTTP_POLICY)
        plain, secure = (self.take(lambda server=each: self.address(server), ("", 0)) for each in (http, https))  # type: ignore[misc]
        tls = tls_config(self.settings, policy, self.faults)
        return WebAddresses(plain if policy.plain else None, secure if policy.secure else None, tls)

    def access(self) -> AccessRules:
        return self.take(lambda: access_rules(self.settings), AccessRules())

    def kerberos(self, kind: ProcessKind) -> KerberosSettings | None:
        return self.take(lambda: kerberos_settings(self.settings, self.who, kind), None)

    def user(self) -> str:
        """Return the user of calls to other servers."""
        return self.take(lambda: configured_user(self.settings), "")

    def port_limits(self) -> PortLimits:
        return PortLimits(**self.bound(PortLimits))

    def all_faults(self) -> tuple[ConfigurationFault, ...]:
        """Return all faults, including refused keys."""
        return tuple(dict.fromkeys([*self.faults.faults, *refusals(self.settings)]))

    def raise_faults(self) -> None:
        """Raise a ConfigurationError with `all_faults`, if there are any."""
        if faults := self.all_faults():
            raise ConfigurationError(faults)
