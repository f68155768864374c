"""A NameNode in one process: its storage, servers and HA state, with start, transitions and graceful shutdown."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from hadoop_common.access import Resource
from hadoop_common.addresses import host_port
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.port_limits import Refusals
from hadoop_common.storage_info import StorageInfo
from hadoop_common.transfer_counter import TransferCounter
from hadoop_rpc.ha_protocol import HAState, ha_service
from hadoop_rpc.server import RpcServer
from journal.errors import JournalError
from namenode_stub.activation import activate, load_newest
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.active_state import ActiveState
from namenode_stub.config import StubConfig
from namenode_stub.fail_stop import FailStop, ShuttingDownError, StandbyRefusalError
from namenode_stub.http_api import shutdown_blueprint, transition_blueprint
from namenode_stub.image_store import StubImages
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.node_parts import Addresses, NodeParts
from namenode_stub.rpc.ha_calls import HaCalls, check_source
from namenode_stub.rpc.service_switch import ServiceSwitch
from namenode_stub.rpc.services import PROTOCOLS
from namenode_stub.standby_state import StandbyState
from namenode_stub.status_pages import SwitchableApplication
from namenode_stub.storage import StorageLocks, check_storage
from servlets.application import create_application
from servlets.change_guard import ChangeGuard
from servlets.http_authenticator import restrict
from servlets.image_admission import UploadReservations
from servlets.web_servers import WebServers
from site_config.kerberos import open_security

_LOG = logging.getLogger(__name__)


class NameNodeStub:
    """A NameNode over formatted storage, active or a standby of another NameNode.

    The object is a context manager. Its start loads the image; an active NameNode also fences previous writers,
    finalizes open segments, starts a segment and serves. On exit, it refuses changes, finalizes the segment, and then
    stops all services. When the edit log or a required journal fails, the NameNode answers every request about the
    namespace with 503 and the reason, and refuses checkpoints. A NameNode that another NameNode has replaced as active
    detects the loss in the same way, and stops.

    With automatic failover, the NameNode always starts as a standby, and its controller makes it active.

    Attributes:
        fail_stop: `FailStop` of the current state.
        shutdown_requested: set to end the process, for example by `request_shutdown`.
    """

    def __init__(
        self, config: StubConfig, *, standby: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._standby = standby or config.automatic_failover
        self._clock = clock
        self._resources = ExitStack()
        self._changing = threading.RLock()
        self._locks = StorageLocks()
        self._refusals = Refusals()
        self._security = open_security(config.access, config.kerberos, self._refusals)
        self._switch = ServiceSwitch(self._security.own_user or config.rpc_user, config.supergroup)
        self._application = SwitchableApplication()
        self.shutdown_requested = threading.Event()
        self.fail_stop = FailStop()
        self.retry_cache = RetryCache(clock)
        self.server: WebServers
        self.rpc_server: RpcServer | None = None
        self._node: NodeParts
        self._state: ActiveState | StandbyState
        self._ha = ha_service(HaCalls(self, self._switch, automatic=config.automatic_failover))

    # ---- parts -------------------------------------------------------------------------------------------------

    @property
    def rpc_address(self) -> tuple[str, int] | None:
        """Address of the RPC server, or None if there is none."""
        return None if self.rpc_server is None else self.rpc_server.address

    @property
    def state(self) -> HAState:
        """HA state; INITIALIZING after a failure, when the node is neither active nor standby, and another node may be
        active.
        """
        return HAState.INITIALIZING if self.fail_stop.reason else self._state.state

    @property
    def failure(self) -> str:
        return self.fail_stop.reason

    @property
    def not_ready(self) -> str:
        if isinstance(self._state, StandbyState) and not self.fail_stop.reason:
            return self._state.namespace.fault
        return self.fail_stop.reason

    @property
    def active(self) -> ActiveState:
        """The active state. A standby raises NotActiveError."""
        if isinstance(self._state, StandbyState):
            raise StandbyRefusalError()
        return self._state

    @property
    def namespace(self) -> ActiveNamespace:
        return self.active.namespace

    @property
    def images(self) -> StubImages:
        return self._state.images

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def __enter__(self) -> NameNodeStub:
        """Start the NameNode.

        Raises:
            StorageError: storage is in use, not formatted, or lacks edits that once existed.
            JournalError, ImageFormatError, ReplayError: data is damaged, or a journal is unusable.
            HttpServerError, RpcError: an address is unusable.
        """
        with ExitStack() as started:
            self._start(started)
            self._resources = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def request_shutdown(self) -> None:
        """Refuse changes from now on, and report the shutdown to clients; the owner must then stop this object."""
        self.shutdown_requested.set()
        self._switch.narrow([], ShuttingDownError().message)
        if isinstance(self._state, ActiveState):
            self._state.refuse_changes()

    def stop(self) -> None:
        """Refuse changes, finalize the segment, stop serving, and release the storage; a second call does nothing.

        Raises:
            JournalStorageError: the edit log failed earlier, so that unacknowledged operations are lost.
        """
        self.shutdown_requested.set()
        # refuse transitions from now on; closing waits for requests, so this thread must not hold the lock that they
        # need
        with self._changing:
            resources = self._resources.pop_all()
        resources.close()

    def _start(self, started: ExitStack) -> None:
        config = self._config
        started.callback(self._locks.release)
        for directory in config.own_directories:
            self._locks.take(directory)
        self._node = self._make_parts(check_storage(config.own_directories))
        if self._standby:
            self._state = self._new_standby()
        else:
            self._state = activate(self._node, self._locks, lambda: load_newest(self._node))
        started.callback(self._close_state)
        limits, refusals = config.port_limits, self._refusals
        if config.rpc_address is not None:
            services = self._switch.services(PROTOCOLS)
            security = self._security.rpc_security
            rpc = RpcServer(services, *config.rpc_address, limits=limits, refusals=refusals, security=security)
            self.rpc_server = started.enter_context(rpc)
        self.server = started.enter_context(
            WebServers(
                self._application,
                config.web,
                limits=limits,
                refusals=refusals,
                header_bytes=self._security.header_bytes,
            )
        )
        started.callback(self._end_state)
        self._serve()

    def _addresses(self) -> Addresses:
        rpc = self.rpc_address
        return Addresses("" if rpc is None else host_port(*rpc), host_port(*self.server.address))

    def _make_parts(self, info: StorageInfo) -> NodeParts:
        return NodeParts(
            self._config,
            info,
            self.fail_stop,
            self.retry_cache,
            self._switch,
            UploadReservations(),
            TransferCounter(),
            self._refusals,
            addresses=self._addresses,
            clock=self._clock,
            started_at=time.time(),
            access=self._security.access,
        )

    def _end_state(self) -> None:
        self._switch.narrow([], ShuttingDownError().message)
        if isinstance(self._state, ActiveState):
            self._state.end()

    def _close_state(self) -> None:
        try:
            # a failed start calls this directly
            self._end_state()
        finally:
            self._state.close()

    def _serve(self) -> None:
        """Route clients to the current state."""
        state = self._state
        if self.shutdown_requested.is_set() and isinstance(state, ActiveState):
            state.refuse_changes()
        transitions = {"active": self.transition_to_active, "standby": self.transition_to_standby}
        guard = ChangeGuard(self._config.control_hosts, self._refusals)
        check = partial(check_source, automatic=self._config.automatic_failover)
        own = [transition_blueprint(transitions, check), shutdown_blueprint(self.request_shutdown)]
        own = [restrict(each, self._security.access, Resource.CONTROL) for each in own]
        self._application.application = create_application(
            *state.blueprints(), *own, guard=guard, authenticator=self._security.authenticator
        )
        services = [*state.services(), self._ha]
        if self.shutdown_requested.is_set():
            return
        if isinstance(state, ActiveState):
            self._switch.open(services)
        else:
            self._switch.narrow(services, StandbyRefusalError().message)
        where = self._node.addresses()
        _LOG.info("%s, HTTP on %s, RPC on %s", state.state.name.lower(), where.http, where.rpc or "no address")

    # ---- other states --------------------------------------------------------------------------------------

    def transition_to_active(self) -> None:
        """Become active: fence other writers, apply all their edits, begin a segment, and serve.

        Raises:
            NotServingError: the node has failed, or is shutting down.
            HdfsError: the node could not become active and remains a standby. If it cannot follow the edits, nothing
                has changed. Otherwise, it may have fenced the other NameNode.
        """
        with self._changing:
            self.fail_stop.check()
            self._check_not_ending()
            if isinstance(self._state, ActiveState):
                return
            _LOG.info("becoming active")
            standby = self._state
            # a NameNode that cannot follow the edits must not fence the other NameNode
            standby.catch_up()
            try:
                self._state = activate(self._node, self._locks, standby.take)
            except Exception as error:
                _LOG.error("cannot become active: %s", error)
                if not standby.following:
                    standby.close()
                    self._state = self._standby_again()
                raise
            finally:
                self._serve()

    def transition_to_standby(self) -> None:
        """Refuse operations, finalize the segment, and follow the shared edits.

        After a failure, discard the namespace in memory and reload it from disk, which contains all acknowledged
        operations.

        Raises:
            NotServingError: the node cannot follow the shared edits, or is shutting down.
            StorageError: there are no shared edits.
        """
        with self._changing:
            self._check_not_ending()
            failed = bool(self.fail_stop.reason)
            if isinstance(self._state, StandbyState) and not failed:
                return
            if not self._config.shared_edits:
                hint = "Set dfs.namenode.shared.edits.dir."
                raise StorageError("there are no shared edits for a standby to follow", hint=hint)
            _LOG.info("becoming a standby")
            try:
                whole = self._leave()
                if failed or not whole:
                    self._begin_anew()
                self._state = self._standby_again()
            except HdfsError as error:
                raise self.fail_stop.trip(f"it cannot be a standby: {error.message}") from error
            finally:
                self._serve()

    def recover(self) -> None:
        """Become a standby after a failure if a failover controller expects this.

        Raises:
            NotServingError: the node cannot become a standby; only a restart may help.
        """
        if self._config.automatic_failover and self.fail_stop.reason and not self.shutdown_requested.is_set():
            _LOG.warning("this NameNode has failed and becomes a standby: %s", self.fail_stop.reason)
            self.transition_to_standby()

    def _leave(self) -> bool:
        """End the state; return False if the namespace has unacknowledged changes that are not in the log."""
        state = self._state
        try:
            if isinstance(state, ActiveState):
                state.end(StandbyRefusalError)
        except JournalError as error:
            _LOG.warning("unacknowledged operations were lost when the edit log was closed: %s", error)
            return False
        finally:
            state.close()
            if self._config.shared_edits_directory is not None:
                self._locks.release(self._config.shared_edits_directory)
        return True

    def _begin_anew(self) -> None:
        """Replace `fail_stop` and the retry cache, because old threads may still trip the old `fail_stop`, and recorded
        calls may have been undone.
        """
        self.fail_stop, self.retry_cache = FailStop(), RetryCache(self._clock)
        self._node = replace(self._node, fail_stop=self.fail_stop, retry_cache=self.retry_cache)

    def _check_not_ending(self) -> None:
        if self.shutdown_requested.is_set():
            raise ShuttingDownError()

    def _new_standby(self) -> StandbyState:
        state = StandbyState(self._node)
        try:
            state.start()
        except BaseException:
            state.close()
            raise
        return state

    def _standby_again(self) -> StandbyState:
        try:
            return self._new_standby()
        except HdfsError as error:
            raise self.fail_stop.trip(f"the shared edits cannot be followed: {error.message}") from error
