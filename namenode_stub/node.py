"""A NameNode in one process: storage, servers, and the state it is in; brought up, changed and down in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from engine.loaded_image import LoadedImage
from hadoop_common.access import Door
from hadoop_common.endpoint import host_port
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.port_limits import Refusals
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.ha_protocol import HAState, ha_service
from hadoop_rpc.server import RpcServer
from journal.errors import JournalError
from journal.journal_set import JournalSet
from namenode_stub.activation import activate, load_newest
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.active_state import ActiveState
from namenode_stub.administration import Administration
from namenode_stub.config import StubConfig
from namenode_stub.fail_stop import FailStop, NotActiveError, ShuttingDownError
from namenode_stub.http_api import shutdown_blueprint, transition_blueprint
from namenode_stub.image_store import StubImages
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.node_resources import Addresses, NodeResources
from namenode_stub.rebase import Rebaser
from namenode_stub.rpc.gate import Gate
from namenode_stub.rpc.ha_calls import HaCalls, check_source
from namenode_stub.rpc.services import PROTOCOLS
from namenode_stub.standby_state import StandbyState
from namenode_stub.storage import StorageLocks, check_storage
from namenode_stub.switchable_application import SwitchableApplication
from servlets.access import restrict
from servlets.application import create_application
from servlets.change_guard import ChangeGuard
from servlets.reservations import UploadReservations
from servlets.transfer_counter import TransferCounter
from servlets.web_servers import WebServers
from site_config.kerberos import open_doors

_LOG = logging.getLogger(__name__)


class NameNodeStub:
    """A NameNode over formatted storage, active or a standby of another one.

    Use as a context manager: entering loads the image, and where it is to be active fences whoever wrote the journals
    before, finalizes what was left open, starts a segment and serves; leaving refuses changes, finalizes the segment,
    and then ends all service. When the edit log fails, or a required journal alone, it answers 503 with the reason to
    everything about the namespace, and takes no checkpoint. That is also how it finds out that another one took over.

    With automatic failover it starts as a standby whatever `standby` says, for its controller makes it active.

    Attributes:
        fail_stop: of the state that it is in.
        shutdown_requested: set to make the process end, by `request_shutdown` among others.
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
        self._doors = open_doors(config.access, config.kerberos, self._refusals)
        self._gate = Gate(self._doors.own_user or config.rpc_user, config.supergroup)
        self._doorway = SwitchableApplication()
        self.shutdown_requested = threading.Event()
        self.fail_stop = FailStop()
        self.retry_cache = RetryCache(clock)
        self.server: WebServers
        self.rpc_server: RpcServer | None = None
        self._node: NodeResources
        self._state: ActiveState | StandbyState
        self._ha = ha_service(HaCalls(self, self._gate, automatic=config.automatic_failover))

    # ---- what there is -------------------------------------------------------------------------------------

    @property
    def rpc_address(self) -> tuple[str, int] | None:
        """Where the RPC server listens, None without one."""
        return None if self.rpc_server is None else self.rpc_server.address

    @property
    def state(self) -> HAState:
        """INITIALIZING where it has failed: it is neither active nor a standby, and another one may be active."""
        return HAState.INITIALIZING if self.fail_stop.reason else self._state.state

    @property
    def failure(self) -> str:
        """Why it serves no more, "" where it does."""
        return self.fail_stop.reason

    @property
    def not_ready(self) -> str:
        """Why it cannot become active now, "" where it can."""
        if isinstance(self._state, StandbyState) and not self.fail_stop.reason:
            return self._state.namespace.fault
        return self.fail_stop.reason

    @property
    def active(self) -> ActiveState:
        """Raises NotActiveError where it is a standby."""
        if isinstance(self._state, StandbyState):
            raise NotActiveError()
        return self._state

    @property
    def namespace(self) -> ActiveNamespace:
        return self.active.namespace

    @property
    def journals(self) -> JournalSet:
        return self.active.journals

    @property
    def images(self) -> StubImages:
        return self._state.images

    @property
    def rebaser(self) -> Rebaser:
        return self.active.rebaser

    @property
    def administration(self) -> Administration:
        return self.active.administration

    @property
    def loaded(self) -> LoadedImage:
        """The namespace with the image that it has for a base now."""
        return self.active.rebaser.loaded

    def roll(self) -> int:
        """Start a new segment; returns its first txid. See `ActiveState.roll`."""
        return self.active.roll()

    # ---- life ----------------------------------------------------------------------------------------------

    def __enter__(self) -> NameNodeStub:
        """Start.

        Raises:
            StorageError: storage is in use, not formatted, or lacks edits that once existed.
            JournalError, ImageFormatError, ReplayError: what it holds is damaged, or a journal cannot be used.
            HttpServerError, RpcError: an address cannot be used.
        """
        with ExitStack() as started:
            self._start(started)
            self._resources = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def request_shutdown(self) -> None:
        """Refuse changes from now on, with an answer that says so, and let the owner of this object stop it."""
        self.shutdown_requested.set()
        self._gate.narrow([], ShuttingDownError().message)
        if isinstance(self._state, ActiveState):
            self._state.refuse_changes()

    def stop(self) -> None:
        """Refuse changes, finalize the segment, serve no more, release the storage; a second call does nothing.

        Raises:
            JournalStorageError: operations that nobody was promised are lost, because the edit log had failed.
        """
        self.shutdown_requested.set()
        # Who waits for the lock is refused now; closing waits for requests, so it must not hold what they wait for.
        with self._changing:
            resources = self._resources.pop_all()
        resources.close()

    def _start(self, started: ExitStack) -> None:
        config = self._config
        started.callback(self._locks.release)
        for directory in config.own_directories:
            self._locks.take(directory)
        self._node = self._make_parts(check_storage(config.own_directories))
        self._state = self._new_standby() if self._standby else self._new_active()
        started.callback(self._close_state)
        limits, refusals = config.port_limits, self._refusals
        if config.rpc_address is not None:
            doors = self._gate.doors(PROTOCOLS)
            security = self._doors.security
            rpc = RpcServer(doors, *config.rpc_address, limits=limits, refusals=refusals, security=security)
            self.rpc_server = started.enter_context(rpc)
        self.server = started.enter_context(
            WebServers(
                self._doorway, config.web, limits=limits, refusals=refusals, header_bytes=self._doors.header_bytes
            )
        )
        started.callback(self._end_state)
        self._serve()

    def _addresses(self) -> Addresses:
        rpc = self.rpc_address
        return Addresses("" if rpc is None else host_port(*rpc), host_port(*self.server.address))

    def _make_parts(self, info: StorageInfo) -> NodeResources:
        return NodeResources(
            self._config,
            info,
            self.fail_stop,
            self.retry_cache,
            self._gate,
            UploadReservations(),
            TransferCounter(),
            self._refusals,
            addresses=self._addresses,
            clock=self._clock,
            started_at=time.time(),
            access=self._doors.access,
        )

    def _end_state(self) -> None:
        self._gate.narrow([], ShuttingDownError().message)
        if isinstance(self._state, ActiveState):
            self._state.end()

    def _close_state(self) -> None:
        try:
            # A start that failed comes here at once.
            self._end_state()
        finally:
            self._state.close()

    def _serve(self) -> None:
        """Let clients through to the state that there is."""
        state = self._state
        if self.shutdown_requested.is_set() and isinstance(state, ActiveState):
            state.refuse_changes()
        transitions = {"active": self.transition_to_active, "standby": self.transition_to_standby}
        guard = ChangeGuard(self._config.control_hosts, self._refusals)
        check = partial(check_source, automatic=self._config.automatic_failover)
        own = [transition_blueprint(transitions, check), shutdown_blueprint(self.request_shutdown)]
        own = [restrict(each, self._doors.access, Door.CONTROL) for each in own]
        self._doorway.application = create_application(
            *state.blueprints(), *own, guard=guard, entrance=self._doors.entrance
        )
        services = [*state.services(), self._ha]
        if self.shutdown_requested.is_set():
            return
        if isinstance(state, ActiveState):
            self._gate.open(services)
        else:
            self._gate.narrow(services, NotActiveError().message)
        where = self._node.addresses()
        _LOG.info("%s, HTTP on %s, RPC on %s", state.state.name.lower(), where.http, where.rpc or "no address")

    # ---- other states --------------------------------------------------------------------------------------

    def transition_to_active(self) -> None:
        """Take over: fence whoever writes the journals, apply all that they hold, begin a segment, serve.

        Raises:
            NotServingError: it has failed, or is shutting down.
            HdfsError: it could not take over, and is a standby as before; where edits cannot be followed nothing was
                done, else the other one may be fenced all the same.
        """
        with self._changing:
            self.fail_stop.check()
            self._check_not_ending()
            if isinstance(self._state, ActiveState):
                return
            _LOG.info("taking over")
            standby = self._state
            # One that cannot follow must not fence the other.
            standby.catch_up()
            try:
                self._state = activate(self._node, self._locks, standby.take)
            except Exception as error:
                _LOG.error("cannot take over: %s", error)
                if not standby.following:
                    standby.close()
                    self._state = self._standby_again()
                raise
            finally:
                self._serve()

    def transition_to_standby(self) -> None:
        """Refuse operations, finalize the segment, and follow the shared edits.

        One that has failed lets go of what is in memory, and begins anew with what is on disk: all that it ever
        acknowledged is there.

        Raises:
            NotServingError: it cannot follow them, or is shutting down.
            StorageError: there are no shared edits.
        """
        with self._changing:
            self._check_not_ending()
            failed = bool(self.fail_stop.reason)
            if isinstance(self._state, StandbyState) and not failed:
                return
            if not self._config.shared_edits:
                hint = "Set dfs.namenode.shared.edits.dir."
                raise StorageError("there are no shared edits that a standby could follow", hint=hint)
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
        """Become a standby where it has failed and its controller, which sees that, expects it back.

        Raises:
            NotServingError: it cannot; only a new process may help.
        """
        if self._config.automatic_failover and self.fail_stop.reason and not self.shutdown_requested.is_set():
            _LOG.warning("it failed, and becomes a standby: %s", self.fail_stop.reason)
            self.transition_to_standby()

    def _leave(self) -> bool:
        """End the state; False where the namespace has what is not in the log, and nobody was promised."""
        state = self._state
        try:
            if isinstance(state, ActiveState):
                state.end(NotActiveError)
        except JournalError as error:
            _LOG.warning("the log ends without what was not acknowledged: %s", error)
            return False
        finally:
            state.close()
            if self._config.shared_edits_directory is not None:
                self._locks.release(self._config.shared_edits_directory)
        return True

    def _begin_anew(self) -> None:
        """Threads of the state before may still find that it has failed, and calls that it noted may be undone."""
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

    def _new_active(self) -> ActiveState:
        return activate(self._node, self._locks, lambda: load_newest(self._node))

    def _standby_again(self) -> StandbyState:
        try:
            return self._new_standby()
        except HdfsError as error:
            raise self.fail_stop.trip(f"the shared edits cannot be followed: {error.message}") from error
