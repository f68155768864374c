"""An ImageStore in temporary directories, its server, and uploads with arbitrary errors."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import Blueprint, Flask

from hadoop_common.names import ImageKind, image_name, parse_image, segment_name
from hadoop_common.port_limits import PortLimits
from hadoop_common.storage_info import StorageInfo
from hadoop_common.transfer_counter import TransferCounter
from node_state.beans import NodeFacts, daemon_beans
from node_state.metrics import MetricsSnapshot, metrics_blueprint
from node_state.state import NodeState, as_json
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.image_admission import UploadReservations
from servlets.image_transfer_servlet import TransferOptions, image_transfer_blueprint
from servlets.jmx import jmx_blueprint
from servlets.received_files import FileReceiver
from servlets.status import ProbeResult, TriggerResult, TriggerState, status_blueprint

CASE = Path(__file__).parents[1] / "recorded" / "hadoop-2.7.3" / "basic-files"
OLD_TXID, NEW_TXID = 51, 289
OLD_IMAGE = CASE / "before" / image_name(OLD_TXID)
NEW_IMAGE = CASE / "after" / image_name(NEW_TXID)
SEGMENT = CASE / "before" / segment_name(52, 289)
INFO = StorageInfo(-63, 980837346, 0, "CID-490043dd-2883-4159-8622-25b8355351da", "BP-1")
STATE = NodeState(role="standby", image_txid=1, journal_txid=2)
FACTS = NodeFacts(software_version="1", started_at=0.0, security_enabled=False)
# clients of a busy machine may be slow
PATIENT = PortLimits(opening=600.0, idle=600.0, stall=600.0)
OTHER_INFO = StorageInfo(-63, 7, 0, "CID-other", "BP-1")


@dataclass
class TemporaryStore:
    """Images and segments in `directories`; a test can set the responses to the servlet."""

    directories: list[Path]
    info: StorageInfo = INFO
    active: bool = True
    rejection: str | None = None
    received: list[tuple[int, str, str, int]] = field(default_factory=list)
    on_rejection: Callable[[], None] = lambda: None
    on_received: Callable[[], None] = lambda: None

    def storage_info(self) -> StorageInfo:
        return self.info

    def find_image(self, txid: int) -> Path | None:
        return self._find(image_name(txid)) or self._find(image_name(txid, rollback=True))

    def latest_image(self) -> Path | None:
        names = [path for path in self.directories[0].iterdir() if parse_image(path.name)]
        return max(names, default=None, key=lambda path: path.name)

    def find_segment(self, first: int, last: int) -> Path | None:
        return self._find(segment_name(first, last))

    def image_directories(self) -> list[Path]:
        return list(self.directories)

    def is_active(self) -> bool:
        return self.active

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        self.on_rejection()
        return self.rejection

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        self.received.append((txid, kind.value, md5, size))
        self.on_received()

    def _find(self, name: str) -> Path | None:
        return next((path for d in self.directories if (path := d / name).exists()), None)


def make_store(root: Path, count: int = 2) -> TemporaryStore:
    """Make a store of `count` directories with the image at transaction id 51 and the next segment."""
    directories = [root / f"name{number}" for number in range(count)]
    for directory in directories:
        directory.mkdir(parents=True)
        for path in (OLD_IMAGE, OLD_IMAGE.with_name(OLD_IMAGE.name + ".md5"), SEGMENT):
            shutil.copy(path, directory)
    return TemporaryStore(directories)


def daemon_routes(store: TemporaryStore, *further: Blueprint) -> Flask:
    """Return an application with all routes of a daemon, and with further routes."""
    return create_application(
        image_transfer_blueprint(store),
        status_blueprint(
            status=lambda: as_json(STATE),
            checkpoint=lambda *, force, wait: TriggerResult(TriggerState.SKIPPED, "none is due"),
            cancel=lambda reason, *, prevent_for: None,
            save_aside=lambda: TriggerResult(TriggerState.DONE, "saved"),
            live=lambda: ProbeResult(True, "running"),
            ready=lambda: ProbeResult(True, "in step"),
        ),
        jmx_blueprint(lambda: daemon_beans(STATE, FACTS)),
        metrics_blueprint(
            lambda: MetricsSnapshot(state=STATE, now=1.0, version="1", started_at=0.0, counter=TransferCounter())
        ),
        *further,
    )


@dataclass
class Served:
    """A running server and its parts."""

    url: str
    store: TemporaryStore
    reservations: UploadReservations
    server: HttpServer

    @property
    def address(self) -> tuple[str, int]:
        return self.server.address


@contextmanager
def serve(
    store: TemporaryStore,
    options: TransferOptions | None = None,
    *,
    counter: TransferCounter | None = None,
    **settings: Any,
) -> Iterator[Served]:
    """Serve the image servlet of `store` on a free port."""
    reservations = UploadReservations()
    blueprint = image_transfer_blueprint(store, options=options, reservations=reservations, counter=counter)
    limits = {"shutdown_timeout": 1.0, "linger": 5.0, "limits": PATIENT, **settings}
    with HttpServer(create_application(blueprint), "127.0.0.1", 0, threads=6, **limits) as server:
        yield Served(server.url, store, reservations, server)


def leftovers(store: TemporaryStore) -> list[str]:
    """Return the files in the store's directories that are neither images, .md5 files nor segments."""
    names = [path.name for directory in store.directories for path in directory.iterdir()]
    return sorted(name for name in names if "ckpt" in name or "tmp" in name)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def put_query(size: int, txid: int = NEW_TXID, info: StorageInfo = INFO, **more: str) -> dict[str, str]:
    return {"txid": str(txid), "storageInfo": info.colon_string(), "File-Length": str(size), **more}


@dataclass(frozen=True)
class Answer:
    status: int
    text: str


def put(
    url: str,
    body: bytes,
    query: dict[str, str] | None = None,
    *,
    digest: str | None = "right",
    chunk: int | None = None,
) -> Answer:
    """Upload an image; the digest "right" is computed, and `chunk` sends chunks of that size without Content-Length."""
    parts = urlsplit(url)
    target = "/imagetransfer?" + urlencode(put_query(len(body)) if query is None else query)
    headers = {"Content-Type": "application/octet-stream"}
    if digest is not None:
        headers["X-MD5-Digest"] = hashlib.md5(body).hexdigest() if digest == "right" else digest
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    try:
        if chunk is None:
            connection.request("PUT", target, body=body, headers=headers)
        else:
            pieces = (body[i : i + chunk] for i in range(0, len(body), chunk))
            headers["Transfer-Encoding"] = "chunked"
            connection.request("PUT", target, body=pieces, headers=headers, encode_chunked=True)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read().decode())
    finally:
        connection.close()


def padded_image(path: Path, size: int) -> str:
    """Write a valid image of `size` bytes at NEW_TXID, with a hole before its FileSummary; return its MD5."""
    image = NEW_IMAGE.read_bytes()
    tail = struct.unpack(">i", image[-4:])[0] + 4
    with path.open("wb") as out:
        out.write(image[:-tail])
        out.truncate(size)
        out.seek(size - tail)
        out.write(image[-tail:])
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def fill(receiver: FileReceiver, content: bytes) -> None:
    """Append `content` as a transfer does."""
    rest = memoryview(content)
    while rest:
        room = receiver.room(len(rest))
        room[:] = rest[: len(room)]
        receiver.took(len(room))
        rest = rest[len(room) :]
