"""GET of images and finalized segments from a NameNode (TransferFsImage)."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from checkpointer.errors import TransferError
from checkpointer.transfer.common import (
    DEFAULT_TIMEOUT,
    MAX_SENTENCE_BYTES,
    TransferCancelledError,
    TransferInterruptedError,
    login_faults,
    never,
    refusal,
    servlet_url,
    unreachable_hint,
)
from hadoop_common.cluster_http import challenges_of
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.file_faults import error_text
from hadoop_common.http_connection import WaitCancelled, connection_for
from hadoop_common.image_servlet import DIGEST_HEADER, LATEST, NAME_HEADER
from hadoop_common.names import ImageKind, parse_image, segment_name, temporary_segment_name
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import UNLIMITED, Throttle
from hadoop_rpc.spnego import Spnego
from servlets.errors import ImageRejectedError
from servlets.received_files import FileReceiver, ImageReceiver, ReceivedFile
from servlets.transfer_requests import parse_digest

NO_SUCH_IMAGE = (404, 410)
"""HTTP statuses of an image servlet that does not have the requested image."""

_DAMAGED_IMAGE = (
    "Try again; a daemon does so automatically. If the fault remains, the NameNode's own file is damaged, and the "
    "NameNode cannot start from it. Do not restart the NameNode before it has another image: docs/runbook.md, "
    '"The newest image cannot be read".'
)
_DAMAGED_SEGMENT = (
    "Try again; a daemon does so automatically. If the fault remains, the NameNode's own file is damaged, and the "
    'NameNode cannot read it after a restart. Do not restart the NameNode: docs/runbook.md, "Gap in the edits".'
)
_STORED_LAYOUT = re.compile(r"This namenode has storage info ((-?\d{1,9}):\S+) but")
# maximum number of bytes to read before they are passed to the throttle and the writing threads
_MAX_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class DownloadedImage(ReceivedFile):
    """A downloaded image and its transaction id."""

    txid: int


def download_image(
    base_url: str,
    txid: int | None,
    storage_info: StorageInfo | None,
    dest_dirs: Sequence[Path],
    *,
    kind: str = ImageKind.IMAGE,
    bootstrap: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
    chunk_size: int = _MAX_PIECE,
    throttle: Throttle | None = None,
    cancel: Callable[[], bool] = never,
) -> DownloadedImage:
    """Fetch the image at `txid` (None: the newest), and write it and its .md5 file durably to every directory.

    Write the image to `fsimage.ckpt_TXID`, and rename the file after its length, digest and trailer have been verified.

    Args:
        storage_info: the expected cluster; None accepts any cluster.
        bootstrap: whether to request the bandwidth of a standby's bootstrap.
        chunk_size: maximum number of bytes read at a time.

    Raises:
        TransferError: the transfer failed, or the received content is not the image. No file is left in the
            directories.
        StorageError: the image cannot be stored.
        TransferCancelledError: `cancel()` became true.
    """
    wanted = LATEST if txid is None else str(txid)
    query = {"getimage": "1", "txid": wanted, "imageFile": ImageKind(kind).value}
    if bootstrap:
        query["bootstrapstandby"] = "true"
    url = _url(base_url, query, storage_info)
    what = f"image at txid {wanted}"
    with _Download(what, url, timeout, cancel) as download, _stored(what, url, _DAMAGED_IMAGE):
        found = download.named_txid() if txid is None else txid
        digest = download.digest()
        if digest is None:
            raise TransferError(
                url,
                f"{what} was sent without {DIGEST_HEADER}, so damage in transit would not be detected",
                hint="Look for the image's .md5 file on the server.",
            )
        with ImageReceiver(dest_dirs, found, rollback=ImageKind(kind).rollback) as receiver:
            download.receive(receiver, chunk_size, throttle or Throttle(UNLIMITED))
            image = receiver.commit(size=download.size, md5=digest)
    return DownloadedImage(image.paths, image.md5, image.size, image.failures, found)


def download_segment(
    base_url: str,
    first: int,
    last: int,
    storage_info: StorageInfo | None,
    dest_dirs: Sequence[Path],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    throttle: Throttle | None = None,
    cancel: Callable[[], bool] = never,
    check: Callable[[Path], None] = lambda path: None,
) -> ReceivedFile:
    """Fetch the finalized segment `first` .. `last` to every directory.

    Write the segment to `edits_tmp_...`, and rename the file once it is durable, has the correct length, and has passed
    `check`.

    Raises:
        TransferError: the transfer failed or is incomplete. No file is left in the directories.
        StorageError: the segment cannot be stored.
        TransferCancelledError: `cancel()` became true.
    """
    query = {"getedit": "1", "startTxId": str(first), "endTxId": str(last)}
    url = _url(base_url, query, storage_info)
    what = f"segment {first}-{last}"
    temporary = temporary_segment_name(first, last, time.time_ns() // 1_000_000)
    with (
        _Download(what, url, timeout, cancel) as download,
        _stored(what, url, _DAMAGED_SEGMENT),
        _SegmentReceiver(dest_dirs, temporary, segment_name(first, last), check) as receiver,
    ):
        download.receive(receiver, _MAX_PIECE, throttle or Throttle(UNLIMITED))
        return receiver.commit(size=download.size, md5=download.digest())


def image_digest(
    base_url: str, txid: int, *, timeout: float = DEFAULT_TIMEOUT, cancel: Callable[[], bool] = never
) -> str | None:
    """Return the hexadecimal MD5 of the image at `txid` from the headers of a download; None if the header is missing.

    Raises:
        TransferError: the request failed; with a `status` if the server answered.
        TransferCancelledError: `cancel()` became true.
    """
    query = {"getimage": "1", "txid": str(txid), "imageFile": ImageKind.IMAGE.value}
    with _Download(f"digest of the image at txid {txid}", _url(base_url, query, None), timeout, cancel) as asked:
        return asked.digest()


def newest_image(base_url: str, *, timeout: float = DEFAULT_TIMEOUT, cancel: Callable[[], bool] = never) -> int:
    """Return the txid of the server's newest image, from the headers of a download.

    Raises:
        TransferError: the request failed; with a `status` if the server answered.
        TransferCancelledError: `cancel()` became true.
    """
    query = {"getimage": "1", "txid": LATEST, "imageFile": ImageKind.IMAGE.value}
    with _Download("name of the newest image", _url(base_url, query, None), timeout, cancel) as asked:
        return asked.named_txid()


def segment_head(
    base_url: str,
    first: int,
    last: int,
    size: int,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    cancel: Callable[[], bool] = never,
) -> tuple[bytes, bool]:
    """Return the first `size` bytes of the finalized segment `first` .. `last`, and whether these are the whole
    segment.

    Raises:
        TransferError: the request was refused, or the connection broke.
        TransferCancelledError: `cancel()` became true.
    """
    query = {"getedit": "1", "startTxId": str(first), "endTxId": str(last)}
    with _Download(f"beginning of segment {first}-{last}", _url(base_url, query, None), timeout, cancel) as download:
        return download.head(size), download.size <= size


def stored_info(refusal: TransferError, reported: StorageInfo) -> StorageInfo | None:
    """Return the namespace in a NameNode's VERSION if the NameNode refuses images of the namespace that it reports;
    otherwise, return None.

    During a rolling upgrade, Hadoop releases up to 3.3 report the layout of their software, and only this refusal
    contains the layout in VERSION (ImageServlet.validateRequest).
    """
    found = _STORED_LAYOUT.search(refusal.message) if refusal.status == HTTPStatus.FORBIDDEN else None
    if found is None:
        return None
    stored = replace(reported, layout_version=int(found[2]))
    return stored if stored.colon_string() == found[1] and stored != reported else None


class _SegmentReceiver(FileReceiver):
    """A receiver of a segment that calls `check` before the file is renamed to its final name."""

    def __init__(self, directories: Sequence[Path], temporary: str, final: str, check: Callable[[Path], None]) -> None:
        super().__init__(directories, temporary, final)
        self._verify = check

    def _check(self, path: Path) -> None:
        self._verify(path)


def _url(base: str, query: dict[str, str], storage_info: StorageInfo | None) -> str:
    if storage_info is not None:
        query["storageInfo"] = storage_info.colon_string()
    return servlet_url(base, query)


@contextmanager
def _stored(what: str, url: str, damaged: str) -> Iterator[None]:
    """Convert faults in the received content to transfer errors, and faults of the directories to storage errors.

    Args:
        damaged: next step if the content is damaged.
    """
    try:
        yield
    except TransferError:
        raise
    except HdfsError as fault:
        if fault.exit_code == ExitCode.STORAGE:
            raise StorageError(f"{what} cannot be stored: {fault}", hint=fault.hint) from fault
        is_damage = isinstance(fault, ImageRejectedError) or fault.exit_code in (ExitCode.BAD_IMAGE, ExitCode.BAD_EDITS)
        hint = damaged if is_damage else fault.hint
        raise TransferError(url, f"{what} cannot be accepted: {fault}", hint=hint) from fault
    except OSError as fault:
        hint = "Check the space and the permissions of the target directories."
        raise StorageError(f"{what} cannot be stored: {error_text(fault)}", hint=hint) from fault


class _Download:
    """A GET request with a streamed body; a context manager that closes the connection."""

    def __init__(self, what: str, url: str, timeout: float, cancel: Callable[[], bool]) -> None:
        self._what = what
        self._url = url
        self._cancel = cancel
        self._connection = connection_for(urlsplit(url), timeout, cancel)

    def __enter__(self) -> _Download:
        if self._cancel():
            raise self._cancelled("before it began")
        parts = urlsplit(self._url)
        try:
            with login_faults(self._what, self._url):
                spnego = self._spnego = Spnego(parts.hostname or "")
                named = urlsplit(spnego.named(self._url))
            self._connection.request(
                "GET",
                f"{named.path}?{named.query}",
                headers={"Accept-Encoding": "identity", "Connection": "close", **spnego.headers},
            )
            self._answer = self._connection.raw_answer()
            with login_faults(self._what, self._url):
                spnego.check(self._answer.status, challenges_of(self._answer))
            self.size = self._check()
        except WaitCancelled as fault:
            self._connection.close()
            raise self._cancelled("before the answer") from fault
        except (OSError, http.client.HTTPException) as fault:
            self._connection.close()
            raise TransferInterruptedError(
                self._url,
                f"{self._what} could not be requested: {fault or type(fault).__name__}",
                hint=unreachable_hint(fault),
            ) from fault
        except BaseException:
            self._connection.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._connection.close()

    def _cancelled(self, when: str) -> TransferCancelledError:
        return TransferCancelledError(self._url, f"{self._what} was cancelled {when}")

    def digest(self) -> str | None:
        return parse_digest(self._answer.headers.get(DIGEST_HEADER))

    def named_txid(self) -> int:
        """Return the txid in the name of the received image."""
        name = self._answer.headers.get(NAME_HEADER, "")
        parsed = parse_image(name)
        if parsed is None:
            raise TransferError(
                self._url,
                f"{NAME_HEADER} is {name!r}, expected the name of an image",
                hint="Request the image by its txid.",
            )
        return parsed.txid

    def head(self, size: int) -> bytes:
        """Return the first `size` bytes of the body, or the whole body if it is shorter; do not read the rest."""
        content = bytearray(min(size, self.size))
        received = 0
        while received < len(content):
            received += self._receive_into(memoryview(content)[received:], received)
        return bytes(content)

    def receive(self, receiver: FileReceiver, chunk_size: int, throttle: Throttle) -> None:
        """Stream the whole body to `receiver`, at most `chunk_size` bytes at a time."""
        with throttle.transfer():
            while (left := self.size - receiver.size) > 0:
                count = self._receive_into(receiver.room(min(throttle.piece(chunk_size), left)), receiver.size)
                throttle.acquire(count, self._cancel)
                if self._cancel():
                    raise self._cancelled(f"after {receiver.size + count} of {self.size} bytes")
                receiver.took(count)

    def _receive_into(self, room: memoryview, received: int) -> int:
        try:
            count = self._answer.readinto(room)
        except WaitCancelled as fault:
            raise self._cancelled(f"after {received} of {self.size} bytes") from fault
        except (OSError, http.client.HTTPException) as fault:
            raise self._broken(received, str(fault) or type(fault).__name__) from fault
        if not count:
            raise self._broken(received, "the server closed the connection")
        return count

    def _broken(self, received: int, reason: str) -> TransferInterruptedError:
        return TransferInterruptedError(
            self._url,
            f"{self._what}: the transfer was interrupted after {received} of {self.size} bytes: {reason}",
            hint="Check the network and the server's log, then try again.",
        )

    def _check(self) -> int:
        if self._answer.status != 200:
            body = self._answer.read(MAX_SENTENCE_BYTES)
            raise refusal(self._what, self._url, self._answer.status, self._answer.reason, body, self._spnego.hint)
        length = ", ".join(self._answer.headers.get_all("Content-Length", []))
        if not (length.isascii() and length.isdigit()):
            raise TransferError(
                self._url,
                f"{self._what} was sent with Content-Length {length!r}, expected its size in bytes",
                hint="Check that the address is a NameNode's and that no proxy is in between.",
            )
        return int(length)
