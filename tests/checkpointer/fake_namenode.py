"""A NameNode for tests of a secondary: a recorded case behind real RPC and plain HTTP, with faults at any step."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from google.protobuf.message import Message

from engine.merge import merge
from hadoop_common.image_servlet import LATEST
from hadoop_common.names import image_name, md5_name, parse_image, parse_segment, segment_name
from hadoop_common.storage_info import StorageInfo, parse_version
from hadoop_rpc.errors import RemoteError, SafeModeError, UnsupportedOperationRemoteError
from hadoop_rpc.namenode_protocol import (
    CheckpointSignature,
    EditLogManifest,
    NamespaceInfo,
    RemoteEditLog,
    namenode_service,
)
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext, Handler
from journal.binary_codec import encode_op
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, read_ops
from journal.segment_format import encode_header
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp, UpdateMasterKeyOp
from journal.values import DelegationKey
from namenode_stub.ports import free_port
from tests.web_server import QuietHandler

_RECORDED = Path(__file__).parents[1] / "recorded"
DEFAULT_CASE = "hadoop-2.7.3/segments"


Fault = str | int | RemoteError


class FakeNamenode:
    """A NameNode that serves a recorded case; each roll reveals more of the segments, and later segments are empty.

    Attributes:
        steps: the requests in order: RPC methods, "image", "segment-FIRST", "upload".
        per_roll: number of recorded segments that a roll reveals.
        busy: whether each segment after the recorded ones contains a change.
        keeps_edits: whether segments are never purged, as on a NameNode that retains extra edits.
        started_at: start of its process as reported by its /jmx, in ms since the epoch; None if it is not reported.
        recent: period and number of transactions for which images are refused as too recent; None to accept every
            image. As in Hadoop 3.4.1, the reason is only in the status line, and a refused txid stays refused.
        checkpointed_at: arrival of the last image, seconds since the epoch; `now` returns the current time.
        faults: faults by step, until removed: "cut", "hang", "short", "digest", or an HTTP status; for an RPC method,
            "cut", "hang" or an exception. Each call uses the next fault of a list.
    """

    def __init__(self, folder: Path, case: str = DEFAULT_CASE, *, per_roll: int = 3, release: int = 2) -> None:
        self.folder = folder
        source = _RECORDED / case
        if not folder.exists():
            shutil.copytree(source / "before", folder, copy_function=shutil.copyfile)
        self.info: StorageInfo = parse_version((folder / "VERSION").read_bytes(), "VERSION")
        self.expected = next((source / "after").glob("fsimage_" + "?" * 19))
        self.steps: list[str] = []
        self.faults: dict[str, Fault | list[Fault]] = {}
        self.rolling_upgrade = self.busy = self.keeps_edits = False
        self.started_at: int | None = None
        self.recent: tuple[int, int] | None = None
        self.now: Callable[[], float] = time.time
        self.checkpointed_at = time.time()
        self._uploading: set[int] = set()
        self._release = release
        self.per_roll = per_roll
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        self._settled, self._calls = threading.Condition(), 0
        self._pending = sorted(
            name.first for path in folder.iterdir() if (name := parse_segment(path.name)) and name.last is not None
        )
        self._last = self.image_txids()[-1]
        self.recorded_end = max(
            name.last or 0 for path in folder.iterdir() if (name := parse_segment(path.name)) is not None
        )
        # fixed ports, because the NameNode may be restarted
        self.rpc_port, self.http_port = free_port(), free_port()

    # ---- life ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, on the previous ports after a restart."""
        self._waiting.clear()
        service = namenode_service(self)
        methods = {
            name: replace(each, handler=self._counted(each.handler))
            for name, each in service.methods.items()
            if name != "isRollingUpgrade" or self._release != 2
        }
        service = replace(service, methods=methods)
        self._rpc = RpcServer([service], "127.0.0.1", self.rpc_port, shutdown_timeout=0.5)
        self._rpc.start()
        self._http = _HttpServer(("127.0.0.1", self.http_port), self)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self.release()
        self._rpc.stop()
        self._http.shutdown()
        self._http.server_close()

    def release(self) -> None:
        """Release hanging requests."""
        self._waiting.set()

    def hang(self) -> None:
        self._waiting.wait(600)

    def _counted(self, handler: Handler) -> Handler:
        def counted(request: Any, caller: CallContext) -> Message:
            with self._settled:
                self._calls += 1
            try:
                return handler(request, caller)
            finally:
                with self._settled:
                    self._calls -= 1
                    self._settled.notify_all()

        return counted

    def await_calls(self) -> None:
        """Wait until no call is being performed, because a call whose caller has disconnected may still change the
        state.
        """
        with self._settled:
            assert self._settled.wait_for(lambda: self._calls == 0, 600)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    # ---- files ---------------------------------------------------------------------------------------------

    def image_txids(self) -> list[int]:
        names = (parse_image(path.name) for path in self.folder.iterdir())
        return sorted(name.txid for name in names if name is not None)

    def image(self, txid: int) -> Path:
        return self.folder / image_name(txid)

    def known_logs(self) -> list[RemoteEditLog]:
        names = (parse_segment(path.name) for path in self.folder.iterdir())
        found = [RemoteEditLog(name.first, name.last) for name in names if name is not None and name.last is not None]
        return sorted((log for log in found if log.last <= self._last), key=lambda log: log.first)

    def take(self, txid: int, content: bytes) -> None:
        """Store an image like a NameNode, and purge everything older than the second newest image."""
        path = self.image(txid)
        path.write_bytes(content)
        path.with_name(md5_name(path.name)).write_text(f"{hashlib.md5(content).hexdigest()} *{path.name}\n")
        self._purge(self.image_txids()[-2:][0])

    def _purge(self, oldest: int) -> None:
        """Keep images from txid `oldest` on, and the edits that follow the oldest image."""
        for each in list(self.folder.iterdir()):
            name, segment = parse_image(each.name.removesuffix(".md5")), parse_segment(each.name)
            superseded = segment and segment.last is not None and segment.last <= oldest and not self.keeps_edits
            if (name and name.txid < oldest) or superseded:
                each.unlink()

    def save_namespace(self, *, upgrade: bool = False) -> None:
        """End the segment and save an image at its end, like `dfsadmin -saveNamespace`.

        Args:
            upgrade: whether to act like a start with `-upgrade`, which leaves no older image.
        """
        base = self.image_txids()[-1]
        with self._lock:
            self._roll()
        ops = [
            op
            for log in self.known_logs()
            if log.first > base
            for op in read_ops(EditLogSegment(log.first, log.last, self.folder / segment_name(log.first, log.last)))
        ]
        merge(self.image(base), ops, [self.folder])
        self._purge(self._last if upgrade else self.image_txids()[-2:][0])
        self.checkpointed_at = self.now()

    def transfers(self, since: int = 0) -> list[str]:
        """Return the steps from number `since` on that transferred an image or a segment."""
        return [step for step in self.steps[since:] if step.startswith(("image", "segment", "upload"))]

    def set_back(self, until: int) -> None:
        """Discard all edits after the oldest image, and write others, in segments of six, beyond txid `until`."""
        for path in self.folder.glob("edits_*"):
            path.unlink()
        first = self.image_txids()[0] + 1
        for txid in self.image_txids()[1:]:
            for suffix in ("", ".md5"):
                (self.folder / (image_name(txid) + suffix)).unlink()
        layout = self.info.layout_version
        while first <= until:
            ops: list[EditOp] = [StartLogSegmentOp(txid=first)]
            for txid in range(first + 1, first + 5):
                ops.append(UpdateMasterKeyOp(txid=txid, key=DelegationKey(txid, 1 << 40, b"of another past")))
            ops.append(EndLogSegmentOp(txid=first + 5))
            content = encode_header(layout) + b"".join(encode_op(op, layout) for op in ops)
            (self.folder / segment_name(first, first + 5)).write_bytes(content)
            first += 6
        self._pending, self._last = [], first - 1

    def refusal(self, txid: int, now: float) -> str:
        """Return ImageServlet 3.4.1's refusal of an image that arrives at `now`, or "" if it accepts the image."""
        if self.recent is None:
            return ""
        period, transactions = self.recent
        age, delta, least = int(now - self.checkpointed_at), txid - self.image_txids()[-1], round(period * 0.75)
        if later := [each for each in self._uploading if each >= txid]:
            return (
                "Another checkpointer is already in the process of uploading a checkpoint made up to transaction ID "
                f"ImageRequest{{txId={max(later)}, address='127.0.0.1'}}"
            )
        if age >= least or delta >= transactions:
            return ""
        self._uploading.add(txid)
        return (
            f"Rejecting a fsimage due to small time delta and txnid delta. Time since previous checkpoint is {age} "
            f"expecting at least {least} txnid delta since previous checkpoint is {delta} expecting at least "
            f"{transactions}"
        )

    def beans(self) -> list[dict[str, Any]]:
        """Return the NameNode's /jmx."""
        newest = self.image_txids()[-1]
        return [
            {
                "name": "Hadoop:service=NameNode,name=FSNamesystem",
                "tag.HAState": "active",
                "LastCheckpointTime": int(self.checkpointed_at * 1000),
                "LastWrittenTransactionId": self._last + 1,
                "TransactionsSinceLastCheckpoint": self._last + 1 - newest,
            },
            {"name": "Hadoop:service=NameNode,name=NameNodeInfo", "SoftwareVersion": self.software_version},
            *([{"name": "java.lang:type=Runtime", "StartTime": self.started_at}] if self.started_at else []),
        ]

    @property
    def software_version(self) -> str:
        return "2.7.3" if self.recent is None else "3.4.1"

    # ---- NamenodeProtocol ----------------------------------------------------------------------------------

    def begin(self, step: str) -> Fault | None:
        """Record a requested step; return its fault."""
        with self._lock:
            self.steps.append(step)
            fault = self.faults.get(step)
            if isinstance(fault, list):
                return fault.pop(0) if fault else None
            return fault

    def _step(self, name: str) -> None:
        fault = self.begin(name)
        if isinstance(fault, RemoteError):
            raise fault
        if fault == "hang":
            self.hang()
        elif fault is not None:
            for channel in self._rpc.loop.channels():
                channel.socket.shutdown(socket.SHUT_RDWR)

    def transaction_id(self, caller: CallContext) -> int:
        self._step("getTransactionId")
        return self._last + 1

    def most_recent_checkpoint_txid(self, caller: CallContext) -> int:
        self._step("getMostRecentCheckpointTxId")
        return self.image_txids()[-1]

    def roll_edit_log(self, caller: CallContext) -> CheckpointSignature:
        self._step("rollEditLog")
        with self._lock:
            for _ in range(self.per_roll):
                self._roll()
                if self._last >= self.recorded_end:
                    break
            return CheckpointSignature(self.info, self.image_txids()[-1], self._last + 1)

    def _roll(self) -> None:
        first = self._last + 1
        if first in self._pending:
            path = next(self.folder.glob(f"edits_{first:019d}-*"))
            name = parse_segment(path.name)
            assert name is not None
            assert name.last is not None
            self._last = name.last
            return
        layout = self.info.layout_version
        ops: list[EditOp] = [StartLogSegmentOp(txid=first)]
        if self.busy:
            ops.append(UpdateMasterKeyOp(txid=first + 1, key=DelegationKey(first, 1 << 40, b"something new")))
        last = first + len(ops)
        ops.append(EndLogSegmentOp(txid=last))
        content = encode_header(layout) + b"".join(encode_op(op, layout) for op in ops)
        (self.folder / segment_name(first, last)).write_bytes(content)
        # the segment is listed from now on, so its content must be complete
        self._last = last

    def version_request(self, caller: CallContext) -> NamespaceInfo:
        self._step("versionRequest")
        return NamespaceInfo(self.info, "0", f"{self._release}.0.0")

    def edit_log_manifest(self, since: int, caller: CallContext) -> EditLogManifest:
        self._step("getEditLogManifest")
        return EditLogManifest(tuple(log for log in self.known_logs() if log.first >= since))

    def is_upgrade_finalized(self, caller: CallContext) -> bool:
        return True

    def is_rolling_upgrade(self, caller: CallContext) -> bool:
        self._step("isRollingUpgrade")
        return self.rolling_upgrade

    def _refuse(self, *_: object) -> Any:
        raise UnsupportedOperationRemoteError("a secondary does not need this")

    register = start_checkpoint = end_checkpoint = error_report = _refuse

    # ---- settings ------------------------------------------------------------------------------------------

    def safe_mode(self) -> None:
        self.faults["rollEditLog"] = SafeModeError("Log not rolled. Name node is in safe mode.")

    def upgrade(self, **changes: Any) -> None:
        """Report another VERSION from now on."""
        self.info = replace(self.info, **changes)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], node: FakeNamenode) -> None:
        self.node = node
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Do nothing, because tests disconnect clients on purpose."""


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer

    def get(self) -> None:
        node = self.server.node
        query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        if urlsplit(self.path).path == "/jmx":
            wanted = (query.get("qry") or query["get"]).partition("::")[0]
            self._say(200, json.dumps({"beans": [bean for bean in node.beans() if bean["name"] == wanted]}))
            return
        if "getimage" in query:
            txid = node.image_txids()[-1] if query["txid"] == LATEST else int(query["txid"])
            step, path = "image", node.image(txid)
        else:
            first, last = int(query["startTxId"]), int(query["endTxId"])
            step, path = f"segment-{first}", node.folder / segment_name(first, last)
        # A request that only compares images does not send its storage info.
        fault = node.begin(step if "storageInfo" in query else f"look-{step}")
        if isinstance(fault, int):
            self._say(fault, "the test wants it so")
        elif query.get("storageInfo") not in (None, node.info.colon_string()):
            ours, theirs = node.info.colon_string(), query["storageInfo"]
            self._say(403, f"This namenode has storage info {ours} but the secondary expected {theirs}")
        elif not path.is_file():
            self._say(410, f"GetImage failed. {path.name} not found")
        else:
            self._send(path, fault)

    def _send(self, path: Path, fault: object) -> None:
        body = path.read_bytes()
        declared = len(body)
        if fault == "short":
            body, declared = body[: len(body) // 2], len(body) // 2
        self.send_response(200)
        self.send_header("Content-Length", str(declared))
        self.send_header("X-Image-Edits-Name", path.name)
        digest = path.with_name(md5_name(path.name))
        if digest.is_file():
            right = digest.read_text().split()[0]
            self.send_header("X-MD5-Digest", "0" * 32 if fault == "digest" else right)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        half = len(body) // 2
        if fault == "digest" and not digest.is_file():
            body = body[:half] + bytes([body[half] ^ 0xFF]) + body[half + 1 :]
        self.wfile.write(body[:half])
        self.wfile.flush()
        if fault == "hang":
            self.server.node.hang()
        if fault in ("cut", "hang"):
            return
        self.wfile.write(body[half:])

    def put(self) -> None:
        node = self.server.node
        fault = node.begin("upload")
        self.close_connection = True
        if isinstance(fault, int):
            self._say(fault, "the test wants it so")
            return
        if fault == "hang":
            node.hang()
        if fault is not None:
            return
        query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        content = b"".join(self._body())
        txid = int(query["txid"])
        if query["storageInfo"] != node.info.colon_string():
            self._say(403, "another storage")
        elif len(content) != int(query["File-Length"]):
            self._say(410, "wrong length")
        elif hashlib.md5(content).hexdigest() != self.headers["X-MD5-Digest"]:
            self._say(410, "wrong digest")
        elif node.image(txid).exists():
            self._say(409, "there is one already")
        elif refusal := node.refusal(txid, node.now()):
            self._say(409, "", refusal)
        else:
            node.take(txid, content)
            node.checkpointed_at = node.now()
            self._say(200, "")

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding") != "chunked":
            yield self.rfile.read(int(self.headers["Content-Length"]))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _say(self, status: int, text: str, reason: str | None = None) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.answer(status, text.encode(), {"Connection": "close"}, reason)
