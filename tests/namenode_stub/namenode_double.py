"""A NameNode for tests of other programs: the stub's RPC calls, streams and image servlet over a recorded edit log.

The edits are recordings, so that tests can compare images with Hadoop's images, and so that a roll reveals a known
number of transactions. A test can make every request fail.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import parse_qs

from flask import Response
from google.protobuf.message import Message

from checkpointer.transfer.common import IMAGE_SERVLET
from hadoop_common.hadoop_releases import Release
from hadoop_common.image_servlet import DIGEST_HEADER
from hadoop_common.names import ImageKind
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RemoteError, SafeModeError, StandbyError
from hadoop_rpc.ha_protocol import HAState, ha_service
from hadoop_rpc.namenode_protocol import (
    CheckpointCommand,
    CheckpointSignature,
    NamenodeRegistration,
    NamespaceInfo,
    namenode_service,
)
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext, Handler, Service
from namenode_stub.administration import Administration
from namenode_stub.fail_stop import FailStop
from namenode_stub.image_store import StubImages
from namenode_stub.names.transactions import Transactions
from namenode_stub.node_parts import Addresses
from namenode_stub.ports import free_port
from namenode_stub.rpc.checkpoint_calls import CheckpointCalls
from namenode_stub.rpc.ha_calls import HaCalls
from namenode_stub.rpc.service_switch import ServiceSwitch
from namenode_stub.status_pages import REPLAY_SETTINGS
from servlets.application import create_application
from servlets.conf import conf_blueprint
from servlets.errors import sentence_response
from servlets.http_server import HttpServer
from servlets.image_transfer_servlet import image_transfer_blueprint
from servlets.jmx import Bean, jmx_blueprint
from tests.namenode_stub.recorded_namespace import DEFAULT_CASE, RecordedNamespace
from tests.servlets.support import PATIENT, TemporaryStore

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ANY_CALL = "any call"
Fault = str | int | RemoteError


class NamenodeDouble(RecordedNamespace):
    """A NameNode that serves a recorded namespace.

    Attributes:
        steps: the requests in order: RPC methods, "image", "segment-FIRST", "upload"; "look-" precedes a download
            without storage info, which only compares.
        users: the users of the RPC calls.
        faults: faults by step, until removed: "cut", "hang", "short", "digest", or an HTTP status; for an RPC method,
            or for `ANY_CALL`, "cut", "hang" or an exception. Each call uses the next fault of a list.
        state: HA state; a NameNode that is not active refuses rolls and images.
        applied: last transaction that it applied as a standby or an observer; 0 while it has applied none.
        started_at: start of its process as its /jmx reports it, in ms since the epoch; None to omit the time.
        recent: period and number of transactions for which it refuses images as too recent; None to accept every image.
            As in Hadoop 3.4.1, the reason is only in the status line, and a refused txid is refused permanently.
        reaches_nodes: whether streams reach backup nodes; with Kerberos, Hadoop's NameNodes cannot log in to backup
            nodes.
        reports, ended: values received by errorReport and endCheckpoint.
        layouts_ahead: number of layouts by which the software is newer than the storage, as during a rolling upgrade.
        reports_software: whether versionRequest returns the layout of the software, as in releases up to 3.3.
        refuses_checkpoints: whether startCheckpoint returns a request to stop.

    Args:
        per_roll: number of recorded segments that a roll of `rollEditLog` reveals.
        release: 2 or 3.
    """

    failure = not_ready = ""

    def __init__(
        self, folder: Path, case: str = DEFAULT_CASE, *, per_roll: int = 3, release: int = 2, begun: bool = True
    ) -> None:
        super().__init__(folder, case, begun=begun)
        self.steps: list[str] = []
        self.users: set[str] = set()
        self.faults: dict[str, Fault | list[Fault]] = {}
        self.state = HAState.ACTIVE
        self.rolling_upgrade = False
        self.applied = 0
        self.started_at: int | None = None
        self.recent: tuple[int, int] | None = None
        self.reports: list[tuple[int, str]] = []
        self.ended: list[CheckpointSignature] = []
        self.refuses_checkpoints = self.reports_software = False
        self.need_to_return_image = self.reaches_nodes = True
        self.layouts_ahead = 0
        self.per_roll = per_roll
        self._uploading: set[int] = set()
        self._release = Release(f"{release}.0.0", "0")
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        self._settled, self._calls = threading.Condition(), 0
        # fixed ports, because the NameNode may be restarted
        self.rpc_port, self.http_port = free_port(), free_port()

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, on the previous ports after a restart."""
        self._waiting.clear()
        services = [self._served(lambda: namenode_service(_Calls(self))), self._served(self._ha_service)]
        self._rpc = RpcServer(services, *self.rpc, shutdown_timeout=0.5)
        self._rpc.start()
        self._http = HttpServer(_Web(self), "127.0.0.1", self.http_port, limits=PATIENT, shutdown_timeout=0.5)
        self._http.start()

    def stop(self) -> None:
        self.release()
        self.backups.close()
        self._rpc.stop()
        self._http.stop()

    def release(self) -> None:
        """Release hanging requests."""
        self._waiting.set()

    def hang(self) -> None:
        self._waiting.wait(600)

    def await_calls(self) -> None:
        """Wait until no call is being performed, because a call whose caller has disconnected may still change the
        state.
        """
        with self._settled:
            assert self._settled.wait_for(lambda: self._calls == 0, 600)

    @property
    def url(self) -> str:
        return f"http://{self.addresses().http}"

    @property
    def rpc(self) -> tuple[str, int]:
        return "127.0.0.1", self.rpc_port

    def addresses(self) -> Addresses:
        return Addresses(f"127.0.0.1:{self.rpc_port}", f"127.0.0.1:{self.http_port}")

    def refusal(self, txid: int) -> str | None:
        """Return the refusal that Hadoop 3.4.1's ImageServlet sends for an image that arrives now, or None if it
        accepts the image.
        """
        if self.recent is None:
            return None
        period, transactions = self.recent
        age, delta, least = int(self.now() - self.checkpointed_at), txid - self.checkpoint_txid, round(period * 0.75)
        if later := [each for each in self._uploading if each >= txid]:
            return (
                "Another checkpointer is already in the process of uploading a checkpoint made up to transaction ID "
                f"ImageRequest{{txId={max(later)}, address='127.0.0.1'}}"
            )
        if age >= least or delta >= transactions:
            return None
        self._uploading.add(txid)
        return (
            f"Rejecting a fsimage due to small time delta and txnid delta. Time since previous checkpoint is {age} "
            f"expecting at least {least} txnid delta since previous checkpoint is {delta} expecting at least "
            f"{transactions}"
        )

    def transfers(self, since: int = 0) -> list[str]:
        """Return the steps from number `since` on that transferred an image or a segment."""
        return [step for step in self.steps[since:] if step.startswith(("image", "segment", "upload"))]

    def beans(self) -> list[Bean]:
        """Return the beans of its /jmx.

        FSNamesystem contains the state before a failover, and the last transaction that the NameNode wrote itself.
        """
        newest = max(self.written, self.applied)
        system = {
            "tag.HAState": "active",
            "LastCheckpointTime": int(self.checkpointed_at * 1000),
            "LastWrittenTransactionId": self.written,
            "TransactionsSinceLastCheckpoint": newest - self.checkpoint_txid,
        }
        txids = {"LastAppliedOrWrittenTxId": str(newest), "MostRecentCheckpointTxId": str(self.checkpoint_txid)}
        version = "2.7.3" if self.recent is None else "3.4.1"
        release = {"SoftwareVersion": version, "JournalTransactionInfo": json.dumps(txids)}
        process = [Bean("java.lang:type=Runtime", "", {"StartTime": self.started_at})] if self.started_at else []
        node = "Hadoop:service=NameNode,name="
        status = Bean(f"{node}NameNodeStatus", "", {"State": self.state.name.lower()})
        return [Bean(f"{node}FSNamesystem", "", system), status, Bean(f"{node}NameNodeInfo", "", release), *process]

    # ---- RPC -----------------------------------------------------------------------------------------------

    def roll_edit_log(self) -> int:
        with self.writing:
            for _ in range(self.per_roll):
                self.roll()
                if self.segment > self.recorded_end:
                    break
            return self.segment

    def transition_to_active(self) -> None:
        self.state = HAState.ACTIVE

    def transition_to_standby(self) -> None:
        self.state = HAState.STANDBY

    def _ha_service(self) -> Service:
        return ha_service(HaCalls(self, cast(ServiceSwitch, _AnyUser()), automatic=False))

    def _served(self, build: Callable[[], Service]) -> Service:
        """Return a service that records each call, and applies the call's fault before the stub responds."""

        def handler_of(name: str) -> Handler:
            def handler(request: Any, caller: CallContext) -> Message:
                with self._settled:
                    self._calls += 1
                try:
                    self._meet(name, caller)
                    return build().methods[name].handler(request, caller)
                finally:
                    with self._settled:
                        self._calls -= 1
                        self._settled.notify_all()

            return handler

        service = build()
        hidden = "isRollingUpgrade" if self._release.version.startswith("2.") else ""
        methods = {
            name: replace(each, handler=handler_of(name)) for name, each in service.methods.items() if name != hidden
        }
        return replace(service, methods=methods)

    def _meet(self, name: str, caller: CallContext) -> None:
        self.users.add(caller.user)
        fault = self.begin(name) or self.faults.get(ANY_CALL)
        if isinstance(fault, RemoteError):
            raise fault
        if fault == "hang":
            self.hang()
        elif fault is not None:
            for channel in self._rpc.loop.channels():
                channel.socket.shutdown(socket.SHUT_RDWR)
        if name == "rollEditLog" and self.state is not HAState.ACTIVE:
            raise StandbyError(f"Operation category JOURNAL is not supported in state {self.state.name.lower()}")

    def begin(self, step: str) -> Fault | None:
        """Record a requested step; return its fault."""
        with self._lock:
            self.steps.append(step)
            fault = self.faults.get(step)
            if isinstance(fault, list):
                return fault.pop(0) if fault else None
            return fault

    def safe_mode(self) -> None:
        self.faults["rollEditLog"] = SafeModeError("Log not rolled. Name node is in safe mode.")


def streaming_double(folder: Path, case: str = DEFAULT_CASE) -> NamenodeDouble:
    """Return a NameNode for backup nodes: they receive all recorded edits, one segment for each roll."""
    return NamenodeDouble(folder, case, per_roll=1, begun=False)


class _AnyUser:
    """A `ServiceSwitch` that treats every user as a superuser."""

    def check_superuser(self, caller: CallContext) -> None:
        """Accept the caller."""


class _RecordedLog:
    """The `Transactions` and their log that `CheckpointCalls` reads."""

    def __init__(self, node: NamenodeDouble) -> None:
        self.fail_stop = FailStop()
        self.log = self
        self.last_txid = node.written


class _RecordedRolls:
    """The `Administration` that `CheckpointCalls` uses."""

    def __init__(self, node: NamenodeDouble) -> None:
        self.is_rolling_upgrade = node.rolling_upgrade
        self.roll = node.roll_edit_log


class _Calls(CheckpointCalls):
    """The stub's calls on the recorded log, with the responses that a test selected."""

    def __init__(self, node: NamenodeDouble) -> None:
        self._node = node
        super().__init__(
            node.info,
            node._release,
            cast(Transactions, _RecordedLog(node)),
            cast(Administration, _RecordedRolls(node)),
            cast(StubImages, node),
            node.backups,
            cast(ServiceSwitch, _AnyUser()),
            segments=node.segments,
            addresses=node.addresses,
        )

    @property
    def _software_layout(self) -> int:
        return self._node.info.layout_version - self._node.layouts_ahead

    def version_request(self, caller: CallContext) -> NamespaceInfo:
        answer = super().version_request(caller)
        if not self._node.reports_software:
            return answer
        return replace(answer, storage_info=replace(answer.storage_info, layout_version=self._software_layout))

    def register(self, registration: NamenodeRegistration, caller: CallContext) -> NamenodeRegistration:
        answer = super().register(registration, caller)
        if not self._node.reaches_nodes:
            self._node.backups.release(registration)
        return answer

    def start_checkpoint(self, registration: NamenodeRegistration, caller: CallContext) -> CheckpointCommand | None:
        if self._node.refuses_checkpoints:
            return None
        command = super().start_checkpoint(registration, caller)
        return command and replace(command, need_to_return_image=self._node.need_to_return_image)

    def end_checkpoint(
        self, registration: NamenodeRegistration, signature: CheckpointSignature, caller: CallContext
    ) -> None:
        super().end_checkpoint(registration, signature, caller)
        self._node.ended.append(signature)

    def error_report(self, registration: NamenodeRegistration, code: int, text: str, caller: CallContext) -> None:
        super().error_report(registration, code, text, caller)
        self._node.reports.append((code, text))


class _Images(TemporaryStore):
    """The images and segments of the double for the stub's servlet."""

    def __init__(self, node: NamenodeDouble) -> None:
        super().__init__([node.folder])
        self._node = node

    def storage_info(self) -> StorageInfo:
        return self._node.info

    def is_active(self) -> bool:
        return self._node.state is HAState.ACTIVE

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        return self._node.refusal(txid)

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        self._node.image_arrived()


class _Web:
    """The stub's servlets, with the faults of the double for their requests."""

    def __init__(self, node: NamenodeDouble) -> None:
        self._node = node
        self._application = create_application(
            image_transfer_blueprint(_Images(node)), jmx_blueprint(node.beans), conf_blueprint(REPLAY_SETTINGS)
        )

        @self._application.after_request
        def reason_in_status_line_only(answer: Response) -> Response:
            if answer.status_code == 409:
                answer.set_data(b"")
            return answer

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != IMAGE_SERVLET:
            return self._application(environ, start_response)
        fault = self._node.begin(step := _step_of(environ))
        if isinstance(fault, int):
            return sentence_response(fault, "the test wants it so")(environ, start_response)
        ours, theirs = self._node.info.colon_string(), parse_qs(environ["QUERY_STRING"]).get("storageInfo", [""])[0]
        if theirs not in ("", ours):
            # unlike the stub, a NameNode reveals its namespace in a refusal
            reason = f"This namenode has storage info {ours} but the secondary expected {theirs}"
            return sentence_response(403, reason)(environ, start_response)
        if fault is None:
            return self._application(environ, start_response)
        if step == "upload":
            self._break_off(fault)
        answer = Response.from_app(self._application, environ)
        if answer.status_code != 200:
            return answer(environ, start_response)
        body = answer.get_data()
        half = len(body) // 2
        if fault == "digest" and DIGEST_HEADER in answer.headers:
            answer.headers[DIGEST_HEADER] = "0" * 32
        elif fault == "digest":
            answer.set_data(body[:half] + bytes([body[half] ^ 0xFF]) + body[half + 1 :])
        elif fault == "short":
            answer.set_data(body[:half])
        else:
            head = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
            start_response("200 OK", [])(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body[:half])
            self._break_off(fault)
        return answer(environ, start_response)

    def _break_off(self, fault: str | RemoteError) -> None:
        """Close the connection; if `fault` is "hang", first wait until the test releases the requests."""
        if fault == "hang":
            self._node.hang()
        raise ConnectionAbortedError("the test wants it so")


def _step_of(environ: WSGIEnvironment) -> str:
    if environ["REQUEST_METHOD"] == "PUT":
        return "upload"
    query = parse_qs(environ["QUERY_STRING"])
    step = "image" if "getimage" in query else f"segment-{query['startTxId'][0]}"
    # A request that only compares images does not send its storage info.
    return step if "storageInfo" in query else f"look-{step}"
