"""Reads the settings of a failover controller from Hadoop's keys, and reports all faults together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from failover.errors import UnresolvedHostsError
from failover.fencing.environment import fencing_environment
from failover.fencing.fencer import Fencer, SshSettings
from failover.fencing.method_lines import FencingMethod, parse_methods
from failover.target import Target, addresses_of, java_host_name
from hadoop_common.access import ANYBODY, AccessControlList, AccessRules
from hadoop_common.addresses import is_local
from hadoop_common.config_key import ConfigKey, bound
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.port_limits import PortLimits
from hadoop_common.process_user import process_user
from hadoop_common.quantities import parse_list
from hadoop_common.tls.settings import HTTP_POLICY, WebAddresses
from hadoop_common.zookeeper.session import ZooKeeperAddress
from hadoop_common.zookeeper.settings import QUORUM, zookeeper_address
from site_config import failover_keys as own_keys
from site_config import keys
from site_config.addresses import (
    Identity,
    address,
    identity,
    namenode_ids,
    namenode_rpc,
    namenode_urls,
    nameservices,
    scoped_key,
)
from site_config.kerberos import KerberosSettings, ProcessKind
from site_config.reader import AddressKeys, SettingsReader


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    """Settings of health checks; times in seconds."""

    check_interval: float = bound(own_keys.CHECK_INTERVAL)
    connect_retry_interval: float = bound(own_keys.CONNECT_RETRY_INTERVAL)
    sleep_after_disconnect: float = bound(own_keys.SLEEP_AFTER_DISCONNECT)
    rpc_timeout: float = bound(own_keys.HEALTH_TIMEOUT)
    connect_retries: int = bound(own_keys.HEALTH_RETRIES)
    stacks_timeout: float = bound(own_keys.STACKS_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionSettings:
    """Limits of transitions; times in seconds."""

    new_active_timeout: float = bound(own_keys.NEW_ACTIVE_TIMEOUT)
    limit: float = bound(own_keys.TRANSITION_LIMIT)
    graceful_timeout: float = bound(own_keys.GRACEFUL_FENCE_TIMEOUT)
    graceful_retries: int = bound(own_keys.GRACEFUL_FENCE_RETRIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSettings:
    """Settings of the controller of the NameNode `own`. Times are in seconds.

    Attributes:
        automatic: whether automatic failover is enabled.
        own: the NameNode of this host.
        others: the other NameNodes of the nameservice.
        methods: fencing methods by NameNode; None if they are not configured.
        ssh, fencing_timeout: settings of the fencing methods.
        zookeeper, parent, op_retries: the ensemble, the nameservice's znode, and the number of retries of a request.
        bind: host and port of ZKFCProtocol.
        user: user in calls to other servers.
    """

    configuration: Configuration
    automatic: bool = bound(own_keys.AUTOMATIC_FAILOVER, scoped=True)
    own: Target
    others: tuple[Target, ...]
    methods: Mapping[str, tuple[FencingMethod, ...] | None]
    ssh: SshSettings
    fencing_timeout: float = bound(own_keys.FENCING_TIMEOUT, scoped=True)
    zookeeper: ZooKeeperAddress
    parent: str
    op_retries: int = bound(own_keys.OP_RETRIES, scoped=True)
    bind: tuple[str, int]
    web: WebAddresses
    user: str
    health: HealthSettings
    transitions: TransitionSettings
    cli_timeout: float = bound(own_keys.CLI_TIMEOUT, scoped=True)
    port_limits: PortLimits
    access: AccessRules
    kerberos: KerberosSettings | None
    stop_timeout: float = bound(keys.STOP_TIMEOUT, scoped=True)

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> FailoverSettings:
        """Read and check all settings.

        Raises:
            ConfigurationError: names all faulty keys.
            UnresolvedHostsError: the controller cannot determine now which NameNode runs on this host.
        """
        reader = _FailoverReader(
            settings := configuration.with_defaults(keys.DEFAULTS), FaultCollector(), lambda: _own_identity(settings)
        )
        found = reader.read()
        reader.raise_faults()
        assert found is not None
        return found

    @property
    def targets(self) -> tuple[Target, ...]:
        """All NameNodes of the nameservice."""
        return (self.own, *self.others)

    @property
    def fencing_configured(self) -> bool:
        return self.methods[self.own.namenode] is not None

    def target_of(self, namenode: str) -> Target | None:
        """Return the NameNode with an id; None if the id is unknown."""
        return next((each for each in self.targets if each.namenode == namenode), None)

    def fencer(self, target: Target) -> Fencer:
        """Return the fencer for `target`, whose address may differ from the configuration."""
        known = self.target_of(target.namenode)
        moved = known is None or known.address != target.address
        return Fencer(
            target,
            self.methods.get(target.namenode) or (),
            environment=lambda: fencing_environment(self.configuration, target, moved=moved),
            ssh=self.ssh,
            seconds=self.fencing_timeout,
        )


class _FailoverReader(SettingsReader):
    def read(self) -> FailoverSettings | None:
        settings, who = self.settings, self.who
        none: tuple[Target, ...] = ()
        targets = self.take(self._targets, none)
        own = next((each for each in targets if each.namenode == who.own_id), None)
        if own is None:
            return None
        bind_host = self.get(own_keys.SERVICERPC_BIND_HOST, scoped=True) or self.get(keys.RPC_BIND_HOST, scoped=True)
        return FailoverSettings(
            **self.bound(FailoverSettings),
            configuration=settings,
            own=own,
            others=tuple(each for each in targets if each is not own),
            methods={each.namenode: self.take(partial(self._methods, each), None) for each in targets},
            ssh=SshSettings(
                keys=tuple(parse_list(self.get(own_keys.FENCING_SSH_KEYS, scoped=True))),
                connect_timeout=self.get(own_keys.FENCING_SSH_TIMEOUT, scoped=True),
                user=process_user(),
            ),
            zookeeper=self._zookeeper(),
            parent=f"/{self.get(own_keys.PARENT_ZNODE, scoped=True).strip('/')}/{who.nameservice}".replace("//", "/"),
            bind=(bind_host or own.host, own.zkfc_port),
            web=self.web(AddressKeys(own_keys.ZKFC_HTTP_ADDRESS), AddressKeys(own_keys.ZKFC_HTTPS_ADDRESS)),
            user=self.user(),
            health=HealthSettings(**self.bound(HealthSettings)),
            transitions=TransitionSettings(**self.bound(TransitionSettings)),
            port_limits=self.port_limits(),
            access=self.take(self._access, AccessRules()),
            kerberos=self.kerberos(ProcessKind.FAILOVER),
        )

    def _targets(self) -> tuple[Target, ...]:
        if not self.who.is_ha:
            return ()
        everybody = replace(self.who, own_id="")
        policy = HTTP_POLICY.read(self.settings)
        rpc = namenode_rpc(self.settings, everybody)
        web = namenode_urls(self.settings, everybody, policy)
        return tuple(
            self._target(namenode, *address, url)
            for namenode, address, url in zip(self.who.namenodes, rpc, web, strict=True)
        )

    def _target(self, namenode: str, host: str, port: int, web: str) -> Target:
        host = self._as_written(namenode, host)
        lifeline = self._of(own_keys.LIFELINE_ADDRESS, namenode)
        return Target(
            nameservice=self.who.nameservice,
            namenode=namenode,
            host=host,
            port=port,
            name=java_host_name(host),
            zkfc_port=own_keys.ZKFC_PORT.read(self.settings, self._of(own_keys.ZKFC_PORT, namenode)),
            health=address(self.settings, lifeline, port) if self.settings.get(lifeline, "") else (host, port),
            web=web,
        )

    def _as_written(self, namenode: str, host: str) -> str:
        """Return a host name capitalised as in the configuration, because Hadoop's breadcrumbs contain this form."""
        for key in (keys.SERVICERPC_ADDRESS, keys.RPC_ADDRESS):
            text = self.settings.get(self._of(key, namenode), "")
            at = text.lower().find(host)
            if at >= 0:
                return text[at : at + len(host)]
        return host

    def _methods(self, target: Target) -> tuple[FencingMethod, ...] | None:
        key = self._of(own_keys.FENCING_METHODS, target.namenode)
        if key not in self.settings:
            return None
        try:
            return parse_methods(own_keys.FENCING_METHODS.read(self.settings, key))
        except ValueError as fault:
            raise self.error(key, str(fault)) from fault

    def _zookeeper(self) -> ZooKeeperAddress:
        found = self.faults.take(lambda: zookeeper_address(self.settings, self.scoped), None)
        if found is None:
            problem = "is not set, but a failover controller needs ZooKeeper"
            self.faults.add(self.settings.fault(self.scoped(QUORUM), problem))
        return found or ZooKeeperAddress("")

    def _access(self) -> AccessRules:
        """Return the access rules of all servers; administrators may also request a failover."""
        rules = self.access()
        listed = AccessControlList.parse(
            keys.CLUSTER_ADMINISTRATORS.name, keys.CLUSTER_ADMINISTRATORS.read(self.settings)
        )
        # `*` among other users is the name of a user, as in Hadoop
        users = rules.users | listed.users - {ANYBODY} | ({ANYBODY} if listed.anybody else set())
        return replace(rules, users=users, groups=listed.groups)

    def _of(self, key: ConfigKey[Any], namenode: str) -> str:
        return scoped_key(self.settings, key.name, self.who.nameservice, namenode)


def _identity(settings: Configuration) -> Identity:
    """Return the nameservice and this NameNode's id; raise the same errors as `_own_identity`."""
    try:
        return identity(settings)
    except ConfigurationError:
        services = nameservices(settings)
        if len(services) > 1 and not keys.NAMESERVICE_ID.read(settings):
            # `identity` selects one of several nameservices by this host's addresses.
            nodes = [f"{service}.{node}" for service in services for node in namenode_ids(settings, service)]
            hosts = [address(settings, keys.RPC_ADDRESS.of(node), 0)[0] for node in nodes]
            if unknown := [host for host in hosts if host and not addresses_of(host)]:
                raise UnresolvedHostsError(unknown) from None
        raise


def _own_identity(settings: Configuration) -> Identity:
    """Return the controller's NameNode: dfs.ha.namenode.id, or the only NameNode on this host (HAUtil).

    Raises:
        ConfigurationError: neither of these identifies exactly one NameNode.
        UnresolvedHostsError: the addresses of the NameNodes cannot be resolved now.
    """
    who = _identity(settings)
    if not who.namenodes:
        key = keys.HA_NAMENODES.of(who.nameservice) if who.nameservice else keys.NAMESERVICES.name
        problem = "is required: a failover controller is for the NameNodes of a nameservice with HA"
        raise ConfigurationError([settings.fault(key, problem)])
    if who.own_id:
        return who
    hosts = [host for host, _ in namenode_rpc(settings, who)]
    own = [namenode for namenode, host in zip(who.namenodes, hosts, strict=True) if is_local(host)]
    if not own and (unknown := [host for host in hosts if not addresses_of(host)]):
        raise UnresolvedHostsError(unknown)
    if len(own) != 1:
        problem = f"is required: {' and '.join(own) or 'none'} of {', '.join(who.namenodes)} is on this host"
        raise ConfigurationError([settings.fault(keys.HA_NAMENODE_ID.name, problem)])
    return replace(who, own_id=own[0])
