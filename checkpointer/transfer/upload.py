"""PUT of a checkpoint to a NameNode (TransferFsImage.uploadImageFromStorage).

The state of a PUT is connecting, sending, waiting or answered. The server may respond at any time, so the sender
watches the socket. The sender stops after a response. It also stops after the server has closed the connection, and
then reads a response that may still be in the buffer. A success before the last byte is an error. After a status other
than 200, 409 or 417, it is unknown whether the NameNode has the image; the next offer of the image shows this.
"""

from __future__ import annotations

import http.client
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from io import BufferedReader
from pathlib import Path
from urllib.parse import urlsplit

from checkpointer.errors import TransferError
from checkpointer.transfer.common import (
    DEFAULT_CHUNK_SIZE,
    DEFAULT_TIMEOUT,
    MAX_SENTENCE_BYTES,
    TransferCancelledError,
    ignore_refusal,
    login_faults,
    never,
    reason_of,
    refusal,
    servlet_url,
    unreachable_hint,
    unwatched,
)
from checkpointer.transfer.send_loop import BodySender, EarlyAnswer
from hadoop_common.cluster_http import challenges_of
from hadoop_common.file_faults import FileFaultError, file_faults
from hadoop_common.http_connection import CancellableConnection, WaitCancelled, connection_for
from hadoop_common.image_servlet import DIGEST_HEADER
from hadoop_common.names import ImageKind
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import Throttle
from hadoop_common.tls.errors import HandshakeError
from hadoop_rpc.spnego import Spnego

_LOG = logging.getLogger(__name__)


class UploadResult(Enum):
    """The NameNode's response to an image; the value is the HTTP status (TransferFsImage.TransferResult)."""

    SUCCESS = 200
    OLD_TRANSACTION_ID_FAILURE = 409
    NOT_ACTIVE_NAMENODE_FAILURE = 417


# maximum number of bytes to read and send at a time; a piece of this size may consist of several chunks
_MAX_PIECE = 1 << 20
_READ_AHEAD = 8 << 20
_MAX_CHUNKS = 16

_RESULTS = {result.value: result for result in UploadResult}


def upload_image(
    target_url: str,
    image_path: Path,
    md5: str,
    txid: int,
    storage_info: StorageInfo,
    *,
    kind: str = ImageKind.IMAGE,
    timeout: float = DEFAULT_TIMEOUT,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    throttle: Throttle | None = None,
    cancel: Callable[[], bool] = never,
    sent: Callable[[int], None] = unwatched,
    refused: Callable[[str], None] = ignore_refusal,
) -> UploadResult:
    """Offer the image in `image_path` to the NameNode at `target_url` (`http://host:port`).

    An image larger than `chunk_size` bytes is sent in chunks of that size. The upload ends as soon as the NameNode
    responds or `cancel()` returns True; `cancel` is called at least every 0.25 s.

    Args:
        md5: digest of the image in hexadecimal.
        kind: IMAGE or IMAGE_ROLLBACK.
        timeout: longest duration of connecting and of each wait without progress, in seconds.
        sent: called with the number of bytes of each sent piece.
        refused: called with the reason in a response with status 409 or 417.

    Raises:
        TransferError: the connection failed, or the status is not 200, 409 or 417.
        TransferCancelledError: `cancel()` became true.
        OSError: the image cannot be read.
    """
    with file_faults(image_path, "cannot be read"), image_path.open("rb") as image:
        size = os.fstat(image.fileno()).st_size
        if size == 0:
            raise TransferError(
                target_url, f"{image_path} is empty, expected an image", hint="Make the checkpoint again."
            )
        query = {"txid": str(txid), "storageInfo": storage_info.colon_string(), "File-Length": str(size)}
        url = servlet_url(target_url, {**query, "imageFile": ImageKind(kind).value})
        upload = _PutRequest(url, image_path, size, timeout, cancel, sent)
        result, reason_text = upload.run(image, md5, chunk_size, throttle or Throttle(0))
    if result is not UploadResult.SUCCESS:
        refused(reason_text)
    return result


class _PutRequest:
    def __init__(
        self,
        url: str,
        path: Path,
        size: int,
        timeout: float,
        cancel: Callable[[], bool],
        count_sent: Callable[[int], None],
    ) -> None:
        self._url = url
        self._path = path
        self._size = size
        self._timeout = timeout
        self._cancel = cancel
        self._count_sent = count_sent
        self._sent = 0

    def run(self, image: BufferedReader, md5: str, chunk_size: int, throttle: Throttle) -> tuple[UploadResult, str]:
        began = time.monotonic()
        if self._cancel():
            raise self._cancelled()
        what = f"upload of {self._path}"
        with login_faults(what, self._url):
            # log in before the NameNode requires a login, because the body can be sent only once
            spnego = Spnego(urlsplit(self._url).hostname or "")
            named = spnego.named(self._url)
        connection = self._connect()
        try:
            self._send_head(connection, named, {DIGEST_HEADER: md5, **spnego.headers}, chunked=self._size > chunk_size)
            complete = self._send_body(connection, image, chunk_size, throttle)
            # close the response here, because a response without a length keeps the socket open
            with connection.raw_answer() as answer:
                body = answer.read(MAX_SENTENCE_BYTES)
        except WaitCancelled as fault:
            raise self._cancelled() from fault
        except FileFaultError:
            raise
        except (OSError, http.client.HTTPException) as fault:
            raise self._broken(fault) from fault
        finally:
            connection.close()
        with login_faults(what, self._url):
            spnego.check(answer.status, challenges_of(answer))
        result = self._result(answer, body, spnego.hint, complete=complete)
        reason_text = reason_of(answer.status, answer.reason, body)
        _LOG.info(
            "upload of %s to %s: %s, %d of %d bytes sent in %.1f s: %s",
            self._path.name,
            connection.host,
            result.name,
            self._sent,
            self._size,
            time.monotonic() - began,
            reason_text,
        )
        return result, reason_text

    def _connect(self) -> CancellableConnection:
        parts = urlsplit(self._url)
        connection = connection_for(parts, self._timeout, self._cancel)
        try:
            connection.connect()
        except WaitCancelled as fault:
            raise self._cancelled() from fault
        except OSError as fault:
            connection.close()
            raise TransferError(
                self._url, f"cannot connect to {parts.netloc}: {fault}", hint=unreachable_hint(fault)
            ) from fault
        return connection

    def _send_head(
        self, connection: CancellableConnection, url: str, headers: Mapping[str, str], *, chunked: bool
    ) -> None:
        parts = urlsplit(url)
        connection.putrequest("PUT", f"{parts.path}?{parts.query}", skip_accept_encoding=True)
        connection.putheader("Content-Type", "application/octet-stream")
        connection.putheader("Content-Transfer-Encoding", "binary")
        connection.putheader("Connection", "close")
        for name, value in headers.items():
            connection.putheader(name, value)
        if chunked:
            connection.putheader("Transfer-Encoding", "chunked")
        else:
            connection.putheader("Content-Length", str(self._size))
        connection.endheaders()

    def _send_body(
        self, connection: CancellableConnection, image: BufferedReader, chunk_size: int, throttle: Throttle
    ) -> bool:
        """Send the image and wait for the response; return False if the response arrived before the end of the
        image.
        """
        sender = BodySender(connection, self._timeout, self._cancel)
        chunked = self._size > chunk_size
        buffer = memoryview(bytearray(_piece_size(chunk_size, self._size)))
        try:
            with throttle.transfer():
                while self._sent < self._size:
                    count = min(throttle.piece(len(buffer), chunk_size), self._size - self._sent)
                    throttle.acquire(count, self._cancel)
                    piece = self._read(image, buffer[:count])
                    sender.send(*_chunks(piece, chunk_size) if chunked else [piece])
                    self._sent += len(piece)
                    self._count_sent(len(piece))
            if chunked:
                sender.send(b"0\r\n\r\n")
        except EarlyAnswer:
            return False
        except (BrokenPipeError, ConnectionResetError, HandshakeError):
            # if the server refused the image and closed the connection, its response may still be in the receive buffer
            return False
        sender.wait_for_answer()
        return True

    def _read(self, image: BufferedReader, room: memoryview) -> memoryview:
        with file_faults(self._path, "cannot be read"):
            # The disk reads the following pieces while this piece is sent; a new image is not in the page cache.
            with suppress(OSError):
                os.posix_fadvise(image.fileno(), self._sent + _READ_AHEAD, len(room), os.POSIX_FADV_WILLNEED)
            count = image.readinto(room)
        if not count:
            raise TransferError(
                self._url,
                f"{self._path} ended at byte {self._sent}, but had {self._size} bytes when the upload began",
                hint="Do not change images during an upload; make the checkpoint again.",
            )
        return room[:count]

    def _result(self, answer: http.client.HTTPResponse, body: bytes, hint: str, *, complete: bool) -> UploadResult:
        what = f"upload of {self._path}"
        result = _RESULTS.get(answer.status)
        if result is None:
            raise refusal(what, self._url, answer.status, answer.reason, body, hint)
        if result is UploadResult.SUCCESS and not complete:
            raise TransferError(
                self._url,
                f"{what}: the server reported success after {self._sent} of {self._size} bytes",
                hint="Check that the address is a NameNode's and that no proxy is in between.",
            )
        return result

    def _cancelled(self) -> TransferCancelledError:
        problem = f"upload of {self._path} was cancelled after {self._sent} of {self._size} bytes"
        return TransferCancelledError(self._url, problem)

    def _broken(self, fault: Exception) -> TransferError:
        return TransferError(
            self._url,
            f"upload of {self._path} was interrupted after {self._sent} of {self._size} bytes: "
            f"{fault or type(fault).__name__}",
            hint="Check the network and the server's log, then upload again; the image is intact.",
        )


def _piece_size(chunk_size: int, size: int) -> int:
    """Return the size of a piece: a whole number of chunks, small enough for one system call."""
    chunks = min(max(_MAX_PIECE // chunk_size, 1), _MAX_CHUNKS)
    return min(chunks * chunk_size, size)


def _chunks(piece: memoryview, chunk_size: int) -> Iterator[bytes | memoryview]:
    """Yield `piece` in the chunked transfer coding, part by part."""
    for start in range(0, len(piece), chunk_size):
        chunk = piece[start : start + chunk_size]
        yield b"%x\r\n" % len(chunk)
        yield chunk
        yield b"\r\n"
