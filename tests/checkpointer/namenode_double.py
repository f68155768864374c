"""A NameNode for the commands of an operator: image servlet, /jmx and RPC calls, each of which can fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RemoteError, StandbyError
from hadoop_rpc.ha_protocol import HAState, ServiceStatus, ha_service
from hadoop_rpc.namenode_protocol import (
    CheckpointSignature,
    EditLogManifest,
    NamespaceInfo,
    RemoteEditLog,
    namenode_service,
)
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext, Service
from tests.servlets.support import INFO, NEW_TXID, OLD_TXID, make_store, serve
from tests.web_server import QuietHandler, web_server


@dataclass
class Double:
    """The responses of the NameNode, which a test can change. Every call raises `failure`."""

    info: StorageInfo = INFO
    state: HAState = HAState.ACTIVE
    last_txid: int = NEW_TXID
    checkpoint_txid: int = OLD_TXID
    logs: tuple[RemoteEditLog, ...] = (RemoteEditLog(OLD_TXID + 1, NEW_TXID),)
    failure: RemoteError | None = None
    asked: list[str] = field(default_factory=list)
    rolled_by: list[str] = field(default_factory=list)

    def services(self) -> list[Service]:
        return [namenode_service(self), ha_service(self)]  # type: ignore[arg-type]

    def _answer(self, name: str) -> None:
        self.asked.append(name)
        if self.failure is not None:
            raise self.failure

    def transaction_id(self, caller: CallContext) -> int:
        self._answer("transaction_id")
        return self.last_txid

    def most_recent_checkpoint_txid(self, caller: CallContext) -> int:
        self._answer("most_recent_checkpoint_txid")
        return self.checkpoint_txid

    def roll_edit_log(self, caller: CallContext) -> CheckpointSignature:
        self.rolled_by.append(caller.user)
        self._answer("roll_edit_log")
        if self.state is not HAState.ACTIVE:
            raise StandbyError(f"Operation category JOURNAL is not supported in state {self.state.name.lower()}")
        return CheckpointSignature(self.info, self.checkpoint_txid, self.last_txid + 2)

    def version_request(self, caller: CallContext) -> NamespaceInfo:
        self._answer("version_request")
        return NamespaceInfo(self.info, "built", "2.7.3", self.state.name)

    def edit_log_manifest(self, since: int, caller: CallContext) -> EditLogManifest:
        self._answer("edit_log_manifest")
        return EditLogManifest(tuple(log for log in self.logs if log.last >= since))

    def service_status(self, caller: CallContext) -> ServiceStatus:
        self._answer("service_status")
        return ServiceStatus(self.state, ready_to_become_active=True)

    def monitor_health(self, caller: CallContext) -> None:
        self._answer("monitor_health")


@dataclass
class Running:
    """A double with its servers; `images` is the folder of the images that it serves."""

    double: Double
    url: str
    rpc: tuple[str, int]
    images: Path

    @property
    def http_address(self) -> str:
        return self.url.removeprefix("http://")

    @property
    def rpc_address(self) -> str:
        return f"{self.rpc[0]}:{self.rpc[1]}"


@contextmanager
def double(root: Path, **answers: Any) -> Iterator[Running]:
    """Yield a NameNode of the recorded namespace on free ports; `answers` are fields of `Double`."""
    node = Double(**answers)
    store = make_store(root, 1)
    with serve(store) as served, RpcServer(node.services(), "127.0.0.1", 0, handlers=2) as rpc:
        yield Running(node, served.url, rpc.address, store.directories[0])


@dataclass
class JsonServer:
    """Server that responds to GET by path with a status and JSON text; for other paths, the status is 404."""

    url: str
    answers: dict[str, tuple[int, str]]
    asked: list[str] = field(default_factory=list)


@contextmanager
def json_server(answers: dict[str, tuple[int, str]]) -> Iterator[JsonServer]:
    """Serve JSON as a daemon or a NameNode's /jmx does."""

    class Handler(QuietHandler):
        def get(self) -> None:
            path = self.path.partition("?")[0]
            served.asked.append(path)
            status, text = served.answers.get(path, (404, "{}"))
            self.answer(status, text.encode(), {"Content-Type": "application/json"})

    with web_server(Handler) as port:
        served = JsonServer(f"http://127.0.0.1:{port}", answers)
        yield served
