"""A failover controller with its servers: ZKFCProtocol for requests, and HTTP for the state."""

from __future__ import annotations

import logging
import time

from console.blueprint import console_blueprint
from console.sources import ConsoleSources
from failover.controller import Controller
from failover.election import Election
from failover.errors import (
    AutomaticFailoverDisabledError,
    FencingNotConfiguredError,
    NotFormattedError,
    SecondControllerError,
    ZooKeeperAwayError,
)
from failover.health import HealthMonitor
from failover.settings import FailoverSettings
from failover.status import ControllerFacts, metrics_blueprint, readiness
from hadoop_common.access import Resource
from hadoop_common.lifetimes import Startable
from hadoop_common.port_limits import Refusals
from hadoop_common.process_control import Command, Control
from hadoop_common.product import product_version
from hadoop_common.sd_notify import Notifier
from hadoop_common.tls.reloading import reload_changed_stores
from hadoop_common.zookeeper.errors import ZooKeeperError
from hadoop_rpc.errors import RpcError
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import access_checked
from hadoop_rpc.zkfc_protocol import right_of, zkfc_service
from servlets.application import create_application
from servlets.http_authenticator import restrict
from servlets.status import ProbeResult, health_blueprint
from servlets.web_servers import WebServers
from site_config.kerberos import open_security

_LOG = logging.getLogger(__name__)

_HANDLERS = 3
_STATUS_SECONDS = 5.0


class FailoverServer(Startable):
    """The controller of `settings` with its servers; a `with` statement starts and stops both."""

    def __init__(self, settings: FailoverSettings) -> None:
        self._settings = settings
        self.controller = Controller(settings)
        self.election = Election(settings.zookeeper, settings.parent, self.controller, retries=settings.op_retries)
        self.controller.begin(self.election)
        self._monitor = HealthMonitor(settings.own, settings.health, settings.user, self.controller.health_reported)
        self._refusals = Refusals()
        security = open_security(settings.access, settings.kerberos, self._refusals)
        self._rpc = RpcServer(
            [access_checked(zkfc_service(self.controller), security.access, right_of)],
            *settings.bind,
            handlers=_HANDLERS,
            limits=settings.port_limits,
            refusals=self._refusals,
            security=security.rpc_security,
        )
        state = (
            health_blueprint(status=lambda: self.facts().as_dict(), live=self.live, ready=self.ready),
            metrics_blueprint(self.facts),
        )
        application = create_application(
            *(restrict(each, security.access, Resource.STATE) for each in state),
            console_blueprint(ConsoleSources(lambda: self.facts().as_dict()), security.access),
            authenticator=security.authenticator,
        )
        self._http = WebServers(
            application,
            settings.web,
            limits=settings.port_limits,
            refusals=self._refusals,
            header_bytes=security.header_bytes,
        )
        self._started_at = time.time()

    def start(self) -> None:
        """Bind the port, so that a NameNode never has two controllers, and only then enter the election.

        Raises:
            ControllerError: the start failed; Hadoop's controller uses the same exit code.
            HdfsError: an address cannot be used.
        """
        check_enabled(self._settings)
        connect(self.election)
        if not self.election.parent_exists():
            raise NotFormattedError(self._settings.parent)
        if not self._settings.fencing_configured:
            raise FencingNotConfiguredError
        if not self._settings.methods[self._settings.own.namenode]:
            _LOG.warning("dfs.ha.fencing.methods is empty: a NameNode that does not answer cannot be fenced")
        try:
            self._rpc.start()
        except RpcError as fault:
            raise SecondControllerError(fault.message) from fault
        self._http.start()
        self._monitor.start()
        where = " and ".join(self._http.urls)
        port = self._rpc.address[1]
        _LOG.info("the controller of %s listens on port %d; its state is at %s", self._settings.own, port, where)

    def stop(self) -> None:
        """Leave the election and stop; the NameNode keeps its state. A second call has no effect."""
        self._monitor.stop()
        self._rpc.stop()
        self.controller.end()
        self.election.close()
        self._http.stop()

    @property
    def url(self) -> str:
        """`http://host:port` of the HTTP server."""
        return self._http.url

    def facts(self) -> ControllerFacts:
        return ControllerFacts(
            controller=self.controller.facts(),
            election={**self.election.facts(), "state": self.election.state.name.lower()},
            transitions=dict(self.controller.transitions),
            fencings=dict(self.controller.fencings),
            refused=self._refusals.counts(),
            version=product_version(),
            started_at=self._started_at,
        )

    def live(self) -> ProbeResult:
        return ProbeResult(True, "the controller answers")

    def ready(self) -> ProbeResult:
        return readiness(self.facts())


def check_enabled(settings: FailoverSettings) -> None:
    """Raise AutomaticFailoverDisabledError if the configuration disables controllers."""
    if not settings.automatic:
        raise AutomaticFailoverDisabledError


def connect(election: Election) -> None:
    """Connect to ZooKeeper; raise ZooKeeperAwayError if ZooKeeper does not answer within a session timeout."""
    try:
        election.connect()
    except ZooKeeperError as fault:
        raise ZooKeeperAwayError(fault) from fault


def run_controller(
    settings: FailoverSettings, control: Control, *, notifier: Notifier, heartbeat: float | None
) -> None:
    """Run the controller until `control` requests a stop.

    Args:
        notifier: notifies the service manager of readiness and state.
        heartbeat: seconds between watchdog messages to the service manager; None if there is no watchdog.

    Raises:
        HdfsError: see `FailoverServer.start`.
    """
    seconds = _STATUS_SECONDS if heartbeat is None else min(heartbeat, _STATUS_SECONDS)
    with FailoverServer(settings) as server:
        notifier.ready(server.ready().message)
        while not control.stopping():
            if control.wait(seconds) is Command.RELOAD:
                reload_changed_stores()
                _LOG.warning("a controller reloads only its TLS stores; the rest of the configuration needs a restart")
            notifier.watchdog()
            if notifier.enabled:
                notifier.status(server.ready().message)
        _LOG.info("stopping")
        notifier.stopping()
