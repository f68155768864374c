"""The daemon process: scheduler, HTTP server, signals and service manager around a role.

The main thread opens the role, starts the scheduler, and then waits for commands to reload or stop. The scheduler's
threads do the work; each job runs in one thread at a time. The scheduler merges polls that become due during a poll
into one poll. Shutdown happens once, in this order: new jobs are blocked, the running checkpoint stops at a safe point,
the HTTP server stops, and the role releases its storage.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import BaseScheduler

from checkpointer.daemon.blueprints import ConsoleQuestions, daemon_blueprints, transfer_options
from checkpointer.daemon.reload import merged
from checkpointer.daemon.service import CONFIGURATION_HINT, CheckpointService
from checkpointer.daemon.wall_clock import PresentInterval, WallClockWatch
from checkpointer.leadership.leadership import Leadership
from checkpointer.roles.role import CheckpointRole, Job
from checkpointer.serving.client_protocol import MAX_FRAME, MAX_FRAME_OF_NAMENODE, namespace_services
from checkpointer.serving.live_namespace import LiveNamespace
from checkpointer.serving.read_servers import ReadServers
from engine.errors import CheckpointCancelledError
from hadoop_common.addresses import host_port
from hadoop_common.file_faults import as_hdfs_error, error_text
from hadoop_common.process_control import Command, Control
from hadoop_common.quantities import duration
from hadoop_common.recurring_fault import with_next
from hadoop_common.sd_notify import Notifier
from hadoop_common.tls.reloading import reload_changed_stores
from hadoop_rpc.server import RpcServer
from servlets.application import create_application
from servlets.change_guard import ChangeGuard
from servlets.image_transfer_servlet import ServingLimits
from servlets.server_security import ServerSecurity
from servlets.web_servers import WebServers
from site_config.checkpoint_config import CheckpointConfig
from site_config.kerberos import open_security

_LOG = logging.getLogger(__name__)
_STATUS_SECONDS = 5.0
_POLL, _NOTIFY = "poll", "notify"


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks of a daemon: monotonic seconds, seconds since the epoch, and the scheduler that uses them."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    scheduler: Callable[[], BaseScheduler] = lambda: BackgroundScheduler(timezone=UTC)


def run_role(
    role: CheckpointRole,
    config: CheckpointConfig,
    *,
    reload: Callable[[], CheckpointConfig] | None = None,
    notifier: Notifier | None = None,
    heartbeat: float | None = None,
    questions: ConsoleQuestions | None = None,
) -> None:
    """Run a role until SIGTERM or SIGINT.

    Args:
        reload: returns the reloaded configuration at SIGHUP.
        notifier: informs the service manager when the role is open and serves requests.
        heartbeat: seconds between watchdog notifications to the service manager; None if there is no watchdog.
        questions: additional sources for the console.

    Raises:
        HdfsError: storage, journal or address cannot be used at startup, or the role stopped permanently.
    """
    with Control(config.stop_timeout) as control:
        try:
            role.open(control.stopping)
        except CheckpointCancelledError as error:
            _LOG.info("stopped: %s", error)
            return
        try:
            serve(role, config, control, reload=reload, notifier=notifier, heartbeat=heartbeat, questions=questions)
        finally:
            role.close()


def serve(
    role: CheckpointRole,
    config: CheckpointConfig,
    control: Control,
    *,
    reload: Callable[[], CheckpointConfig] | None = None,
    notifier: Notifier | None = None,
    heartbeat: float | None = None,
    clocks: Clocks | None = None,
    questions: ConsoleQuestions | None = None,
) -> None:
    """Poll and serve an open role until `control` requests a stop; a running checkpoint stops at a safe point.

    Args:
        clocks: the scheduler's clocks; by default, the system's clocks.

    Raises:
        HdfsError: the address cannot be used, or the role stopped permanently.
    """
    clocks = clocks or Clocks()
    leadership = Leadership.of(config.leader, role.name, host_port(*config.web.first))
    limits = ServingLimits(transfer_options(config), role.counter)
    notifier = notifier or Notifier("")
    guard = ChangeGuard(config.control_hosts, role.refusals)
    security = open_security(config.access, config.kerberos, role.refusals)
    live = _live(role, config, security, clocks.wall)
    reads = ReadServers(_rpc_servers(role, config, security, live))
    service = CheckpointService(
        role,
        config,
        clock=clocks.monotonic,
        gave_up=control.stop,
        leadership=leadership,
        wall=clocks.wall,
        notices=reads.alarms,
    )
    daemon = _Daemon(
        role,
        service,
        config,
        limits,
        security,
        reads,
        reload=reload,
        notifier=notifier,
        heartbeat=heartbeat,
        clocks=clocks,
    )
    blueprints = daemon_blueprints(role, service, config, limits, security.access, guard, questions, live)
    application = create_application(*blueprints, guard=guard, authenticator=security.authenticator)
    web = WebServers(
        application, config.web, limits=config.port_limits, refusals=role.refusals, header_bytes=security.header_bytes
    )
    with closing(reads), web as servers:
        _LOG.info(
            "%s checkpointer on %s: every %g s or %d transactions, polling every %g s",
            role.name,
            " and ".join(servers.urls),
            config.period,
            config.transactions,
            config.poll_interval,
        )
        leadership.start(daemon.poll_now)
        try:
            daemon.run(control)
        finally:
            leadership.stop()
    if service.fault is not None:
        raise service.fault


def _live(
    role: CheckpointRole, config: CheckpointConfig, security: ServerSecurity, wall: Callable[[], float]
) -> LiveNamespace | None:
    """Return the role's namespace if the configuration allows reads of it."""
    namespace = role.warm_namespace
    if not config.serve_namespace or namespace is None:
        return None
    owner = security.own_user or config.rpc_user
    rpc = security.rpc_security
    return LiveNamespace(
        role,
        namespace,
        config,
        owner=owner,
        authenticated=security.access.by_name,
        user_of=None if rpc is None else rpc.user_of,
        wall=wall,
    )


def _rpc_servers(
    role: CheckpointRole, config: CheckpointConfig, security: ServerSecurity, live: LiveNamespace | None
) -> list[Callable[[], RpcServer]]:
    """Return functions that create the RPC servers for reads."""
    if live is None:
        return []
    return [
        partial(
            RpcServer,
            namespace_services(live, needs_state_id=each.is_namenode),
            *each.address,
            limits=config.port_limits,
            refusals=role.refusals,
            security=security.rpc_security,
            tokens=live.tokens,
            state_id=lambda: live.applied_txid,
            max_frame=MAX_FRAME_OF_NAMENODE if each.is_namenode else MAX_FRAME,
            as_standby=each.is_namenode,
        )
        for each in config.namespace_rpc
    ]


class _Daemon:
    """The loop of the main thread, and the scheduler whose threads do the work."""

    def __init__(
        self,
        role: CheckpointRole,
        service: CheckpointService,
        config: CheckpointConfig,
        limits: ServingLimits,
        security: ServerSecurity,
        reads: ReadServers,
        *,
        reload: Callable[[], CheckpointConfig] | None,
        notifier: Notifier,
        heartbeat: float | None,
        clocks: Clocks,
    ) -> None:
        self._clocks = clocks
        self._role = role
        self._service = service
        self._config = config
        self._limits = limits
        self._security = security
        self._reads = reads
        self._read = reload
        self._notifier = notifier
        self._heartbeat = _STATUS_SECONDS if heartbeat is None else min(heartbeat, _STATUS_SECONDS)
        self._scheduler = clocks.scheduler()
        self._clock_watch = WallClockWatch(clocks.monotonic, clocks.wall)

    def run(self, control: Control) -> None:
        # The first poll is immediate, because a checkpoint may be due, or this daemon may soon have to become the
        # leader.
        self._schedule(_POLL, self._config.poll_interval, self._poll)
        for job in self._jobs():
            self._schedule(job.name, job.seconds, _worker(job, self._service))
        if self._notifier.enabled:
            # not in the main thread, because a hanging disk or mount must not stop the watchdog notifications
            self._schedule(_NOTIFY, self._heartbeat, self._notify)
        if self._service.switched_off:
            _LOG.warning("%s", self._service.switched_off)
        self._scheduler.start()
        self._notifier.ready(self._service.ready().message)
        try:
            self._obey(control)
        finally:
            _LOG.info("stopping")
            self._notifier.stopping()
            self._scheduler.shutdown(wait=False)
            self._service.stop()

    def poll_now(self) -> None:
        """Poll immediately; a running poll checks at its end whether another poll is needed."""
        self._poll_in(0.0)

    def _poll(self) -> None:
        self._service.poll()
        while (left := self._service.due_in()) == 0:
            self._service.poll()
        if left is not None and left < self._config.poll_interval:
            self._poll_in(left)

    def _notify(self) -> None:
        self._notifier.status(self._service.ready().message)

    def _poll_in(self, seconds: float) -> None:
        at = datetime.fromtimestamp(self._clocks.wall() + seconds, UTC)
        # The poll job may not exist yet, or may no longer exist.
        with suppress(JobLookupError):
            self._scheduler.modify_job(_POLL, next_run_time=at)

    def _jobs(self) -> list[Job]:
        return [*self._role.jobs(), *self._service.jobs(), *self._reads.jobs()]

    def _obey(self, control: Control) -> None:
        while not control.stopping():
            if control.wait(self._heartbeat) is Command.RELOAD:
                self._notifier.reloading()
                self._reload()
                self._notifier.ready()
            self._follow_clock()
            self._notifier.watchdog()

    def _follow_clock(self) -> None:
        """Run all jobs now if the host's clock was set back; otherwise their next runs would be far in the future."""
        if not (seconds := self._clock_watch.set_back()):
            return
        now = datetime.fromtimestamp(self._clocks.wall(), UTC)
        for job in self._scheduler.get_jobs():
            self._scheduler.modify_job(job.id, next_run_time=now)
        _LOG.warning(
            "the clock of this host was set back by %s; all jobs run now, and then at their intervals",
            duration(seconds),
        )

    def _schedule(self, name: str, seconds: float, work: Callable[[], object]) -> None:
        # Runs of one job do not overlap; the scheduler merges polls that become due during a checkpoint into one poll.
        self._scheduler.add_job(
            work,
            PresentInterval(seconds),
            id=name,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
            next_run_time=datetime.fromtimestamp(self._clocks.wall(), UTC),
        )

    def _reload(self) -> None:
        if self._read is None:
            _LOG.warning("there is no configuration to reload")
            return
        try:
            config, changed, kept = merged(self._config, self._read())
            kerberos = config.kerberos
            changed += self._security.reconfigure(config.access, None if kerberos is None else kerberos.server)
        except Exception as error:
            # a bug in the configuration reader must not stop the daemon either
            bug = error if as_hdfs_error(error) is None else None
            fault = (
                f"the configuration on disk is invalid; the previous configuration still applies: {error_text(error)}"
            )
            self._service.configuration_fault = fault
            _LOG.error("%s", with_next(fault, CONFIGURATION_HINT), exc_info=bug)
            return
        reload_changed_stores()
        self._service.configuration_fault = ""
        self._config = config
        # Reconfigure the role first. An attempt that begins before the next line may be refused, but uses the new
        # rules.
        self._role.reconfigure(self._config)
        self._service.reconfigure(self._config)
        self._limits.change(self._config.transfer_bandwidth, self._config.bootstrap_bandwidth)
        # Do not set an unchanged interval again, because this would postpone the next run.
        intervals = {_POLL: self._config.poll_interval} | {job.name: job.seconds for job in self._jobs()}
        for name, seconds in intervals.items():
            job = self._scheduler.get_job(name)
            if job.trigger.interval.total_seconds() != seconds:
                job.reschedule(PresentInterval(seconds))
        none = "no change takes effect without a restart" if kept else "nothing changed"
        _LOG.info("configuration reloaded: %s", ", ".join(changed) or none)
        if kept:
            _LOG.warning("these changed settings take effect only after a restart: %s", ", ".join(kept))


def _worker(job: Job, service: CheckpointService) -> Callable[[], None]:
    def work() -> None:
        try:
            at_once = job.run()
        except Exception as fault:
            service.job_failed(job.name, fault)
        else:
            service.job_done(job.name)
            if at_once:
                service.poll()

    return work
