"""What a failover controller reads from Hadoop's configuration; every fault in it is reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from failover.fencing.environment import fencing_environment
from failover.fencing.fencer import Fencer, SshSettings
from failover.fencing.methods import FencingMethod, parse_methods
from failover.target import Target, java_host_name
from hadoop_common.access import ANYBODY, AccessControlList, AccessRules
from hadoop_common.addresses import is_local
from hadoop_common.config_key import ConfigKey, bound, take_bound
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.port_limits import PortLimits
from hadoop_common.tls.settings import HTTP_POLICY, WebAddresses, tls_config
from hadoop_common.zookeeper.address import ZooKeeperAddress
from hadoop_common.zookeeper.settings import QUORUM, zookeeper_address
from hadoop_rpc.user import configured_user, process_user
from site_config import failover_keys as own_keys
from site_config import keys
from site_config.access import access_rules
from site_config.addresses import Identity, address, identity, namenode_rpc, namenode_urls, scoped_key
from site_config.catalogue import refusals
from site_config.kerberos import KerberosSettings, Part, kerberos_settings
from site_config.namenode_keys import RPC_BIND_HOST

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    """How a NameNode's health is asked for; seconds."""

    check_interval: float = bound(own_keys.CHECK_INTERVAL)
    connect_retry_interval: float = bound(own_keys.CONNECT_RETRY_INTERVAL)
    sleep_after_disconnect: float = bound(own_keys.SLEEP_AFTER_DISCONNECT)
    rpc_timeout: float = bound(own_keys.HEALTH_TIMEOUT)
    connect_retries: int = bound(own_keys.HEALTH_RETRIES)
    stacks_timeout: float = bound(own_keys.STACKS_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionSettings:
    """How long NameNodes are waited for; seconds."""

    new_active_timeout: float = bound(own_keys.NEW_ACTIVE_TIMEOUT)
    limit: float = bound(own_keys.TRANSITION_LIMIT)
    graceful_timeout: float = bound(own_keys.GRACEFUL_FENCE_TIMEOUT)
    graceful_retries: int = bound(own_keys.GRACEFUL_FENCE_RETRIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSettings:
    """Settings of the controller beside `own`. Times are in seconds.

    Attributes:
        automatic: whether the configuration wants automatic failover at all.
        own: the NameNode of this host.
        others: the other NameNodes of its nameservice.
        methods: by NameNode how it is fenced where it cannot be asked; None where that is not configured.
        ssh, fencing_timeout: of these methods.
        zookeeper, parent, op_retries: the ensemble, the znode of the nameservice, and how often a request is repeated.
        bind: where ZKFCProtocol is served.
        user: whom other servers take the controller for.
    """

    configuration: Configuration
    automatic: bool
    own: Target
    others: tuple[Target, ...]
    methods: Mapping[str, tuple[FencingMethod, ...] | None]
    ssh: SshSettings
    fencing_timeout: float
    zookeeper: ZooKeeperAddress
    parent: str
    op_retries: int
    bind: tuple[str, int]
    web: WebAddresses
    user: str
    health: HealthSettings
    transitions: TransitionSettings
    cli_timeout: float
    port_limits: PortLimits
    access: AccessRules
    kerberos: KerberosSettings | None
    stop_timeout: float

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> FailoverSettings:
        """Read and check everything.

        Raises:
            ConfigurationError: all that is wrong.
        """
        faults = FaultCollector()
        found = _Reader(configuration.with_defaults(keys.DEFAULTS), faults).read()
        for fault in refusals(configuration):
            faults.add(fault)
        faults.raise_if_any()
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
        """The NameNode of that id; None where the configuration has none."""
        return next((each for each in self.targets if each.namenode == namenode), None)

    def fencer(self, target: Target) -> Fencer:
        """How `target`, which need not be where the configuration has it, is fenced."""
        return Fencer(
            target,
            self.methods.get(target.namenode) or (),
            environment=lambda: fencing_environment(self.configuration, target),
            ssh=self.ssh,
            seconds=self.fencing_timeout,
        )


class _Reader:
    """Reads one key after the other; a faulty one yields a stand-in, and the faults are raised at the end."""

    def __init__(self, settings: Configuration, faults: FaultCollector) -> None:
        self._settings = settings
        self._faults = faults
        self._who = faults.take(lambda: _own_identity(settings), Identity())

    def read(self) -> FailoverSettings | None:
        settings, who = self._settings, self._who
        none: tuple[Target, ...] = ()
        targets = self._faults.take(self._targets, none)
        own = next((each for each in targets if each.namenode == who.own_id), None)
        if own is None:
            return None
        user = self._faults.take(lambda: configured_user(settings), "")
        return FailoverSettings(
            configuration=settings,
            automatic=self._get(own_keys.AUTOMATIC_FAILOVER),
            own=own,
            others=tuple(each for each in targets if each is not own),
            methods={each.namenode: self._faults.take(partial(self._methods, each), None) for each in targets},
            ssh=SshSettings(
                keys=tuple(key.strip() for key in self._get(own_keys.FENCING_SSH_KEYS).split(",") if key.strip()),
                connect_timeout=self._get(own_keys.FENCING_SSH_TIMEOUT),
                user=process_user(),
            ),
            fencing_timeout=self._get(own_keys.FENCING_TIMEOUT),
            zookeeper=self._zookeeper(),
            parent=f"/{self._get(own_keys.PARENT_ZNODE).strip('/')}/{who.nameservice}".replace("//", "/"),
            op_retries=self._get(own_keys.OP_RETRIES),
            bind=(self._bind_host() or own.host, own.zkfc_port),
            web=self._web(),
            user=user,
            health=HealthSettings(**take_bound(HealthSettings, settings, self._faults)),
            transitions=TransitionSettings(**take_bound(TransitionSettings, settings, self._faults)),
            cli_timeout=self._get(own_keys.CLI_TIMEOUT),
            port_limits=PortLimits(**take_bound(PortLimits, settings, self._faults)),
            access=self._faults.take(self._access, AccessRules()),
            kerberos=self._faults.take(lambda: kerberos_settings(settings, who, Part.FAILOVER), None),
            stop_timeout=self._get(keys.STOP_TIMEOUT),
        )

    # ---- who is who ----------------------------------------------------------------------------------------

    def _targets(self) -> tuple[Target, ...]:
        if not self._who.is_ha:
            return ()
        everybody = replace(self._who, own_id="")
        policy = HTTP_POLICY.read(self._settings)
        rpc = namenode_rpc(self._settings, everybody)
        web = namenode_urls(self._settings, everybody, policy)
        return tuple(
            self._target(namenode, *address, url)
            for namenode, address, url in zip(self._who.namenodes, rpc, web, strict=True)
        )

    def _target(self, namenode: str, host: str, port: int, web: str) -> Target:
        host = self._as_written(namenode, host)
        lifeline = self._scoped(own_keys.LIFELINE_ADDRESS, namenode)
        return Target(
            nameservice=self._who.nameservice,
            namenode=namenode,
            host=host,
            port=port,
            name=java_host_name(host),
            zkfc_port=own_keys.ZKFC_PORT.read(self._settings, self._scoped(own_keys.ZKFC_PORT, namenode)),
            health=address(self._settings, lifeline, port) if self._settings.get(lifeline, "") else (host, port),
            web=web,
        )

    def _as_written(self, namenode: str, host: str) -> str:
        """With capital letters where the configuration has them, for so Hadoop writes it into the breadcrumb."""
        for key in (keys.SERVICERPC_ADDRESS, keys.RPC_ADDRESS):
            text = self._settings.get(self._scoped(key, namenode), "")
            at = text.lower().find(host)
            if at >= 0:
                return text[at : at + len(host)]
        return host

    def _methods(self, target: Target) -> tuple[FencingMethod, ...] | None:
        key = self._scoped(own_keys.FENCING_METHODS, target.namenode)
        if key not in self._settings:
            return None
        try:
            return parse_methods(own_keys.FENCING_METHODS.read(self._settings, key))
        except ValueError as fault:
            raise ConfigurationError([self._settings.fault(key, str(fault))]) from fault

    def _zookeeper(self) -> ZooKeeperAddress:
        found = self._faults.take(lambda: zookeeper_address(self._settings, self._scoped), None)
        if found is None:
            problem = "is not set: a failover controller needs a ZooKeeper"
            self._faults.add(self._settings.fault(self._scoped(QUORUM), problem))
        return found or ZooKeeperAddress("")

    # ---- our own servers -----------------------------------------------------------------------------------

    def _bind_host(self) -> str:
        return self._get(own_keys.SERVICERPC_BIND_HOST) or self._get(RPC_BIND_HOST)

    def _web(self) -> WebAddresses:
        policy = HTTP_POLICY.take(self._settings, self._faults)
        http, https = (
            self._faults.take(partial(address, self._settings, self._scoped(key), key.port), ("", 0))
            for key in (own_keys.ZKFC_HTTP_ADDRESS, own_keys.ZKFC_HTTPS_ADDRESS)
        )
        tls = tls_config(self._settings, policy, self._faults)
        return WebAddresses(http if policy.plain else None, https if policy.secure else None, tls)

    def _access(self) -> AccessRules:
        """As for the other servers; administrators may ask for a failover too."""
        rules = access_rules(self._settings)
        listed = AccessControlList.parse(
            keys.CLUSTER_ADMINISTRATORS.name, keys.CLUSTER_ADMINISTRATORS.read(self._settings)
        )
        return replace(rules, users=rules.users | listed.users | ({ANYBODY} if listed.anybody else set()))

    # ---- reading -------------------------------------------------------------------------------------------

    def _scoped(self, key: ConfigKey[Any], namenode: str = "") -> str:
        return scoped_key(self._settings, key.name, self._who.nameservice, namenode or self._who.own_id)

    def _get(self, key: ConfigKey[T]) -> T:
        return key.take(self._settings, self._faults, self._scoped(key))


def _own_identity(settings: Configuration) -> Identity:
    """Whose controller this is: dfs.ha.namenode.id, or the only NameNode with an address of this host (HAUtil)."""
    who = identity(settings)
    if not who.namenodes:
        key = keys.HA_NAMENODES.of(who.nameservice) if who.nameservice else keys.NAMESERVICES.name
        problem = "is needed: a failover controller is for the NameNodes of a nameservice with HA"
        raise ConfigurationError([settings.fault(key, problem)])
    if who.own_id:
        return who
    hosts = [host for host, _ in namenode_rpc(settings, who)]
    own = [namenode for namenode, host in zip(who.namenodes, hosts, strict=True) if is_local(host)]
    if len(own) != 1:
        problem = f"is needed: {' and '.join(own) or 'none'} of {', '.join(who.namenodes)} is on this host"
        raise ConfigurationError([settings.fault(keys.HA_NAMENODE_ID.name, problem)])
    return replace(who, own_id=own[0])
