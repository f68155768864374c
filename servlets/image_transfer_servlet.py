"""GET and PUT /imagetransfer, and GET /getimage of older releases: downloads of images and segments, uploads of
images.
"""

from __future__ import annotations

import io
import logging
import os
import time
from pathlib import Path
from typing import cast

from flask import Blueprint, Response, request
from werkzeug.exceptions import ClientDisconnected, HTTPException

from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.image_servlet import DIGEST_HEADER
from hadoop_common.regular_file import open_regular
from hadoop_common.throttle import Throttle
from hadoop_common.transfer_counter import TransferCounter
from image_format.errors import MissingDigestError
from image_format.md5_file import read_md5_file
from servlets.errors import ImageRejectedError, NotActiveError, NotFoundError, ServletError, sentence_response
from servlets.file_body import file_answer
from servlets.image_admission import DEFAULT_CHUNK_SIZE, ImageAdmission, ImageStore, TransferOptions, UploadReservations
from servlets.received_files import ImageReceiver
from servlets.transfer_requests import (
    GetEditRequest,
    GetImageRequest,
    PutImageRequest,
    parse_digest,
    parse_get,
    parse_put,
)

__all__ = ["DEFAULT_CHUNK_SIZE", "ImageStore", "ServingLimits", "TransferOptions", "image_transfer_blueprint"]

_LOG = logging.getLogger(__name__)

# maximum read of an upload between two calls of the throttle and the writing threads
_PIECE = 1 << 20


def image_transfer_blueprint(
    store: ImageStore,
    *,
    options: TransferOptions | None = None,
    reservations: UploadReservations | None = None,
    counter: TransferCounter | None = None,
    limits: ServingLimits | None = None,
) -> Blueprint:
    """Return the blueprint of /imagetransfer and /getimage on `store`.

    Pass `reservations` to observe uploads in progress, `counter` to count the bytes in both directions, or `limits` to
    change the bandwidth even during transfers.
    """
    options = options or TransferOptions()
    limits = limits or ServingLimits(options, counter or TransferCounter())
    admission = ImageAdmission(store, reservations or UploadReservations())
    servlet = _ImageServlet(store, options, admission, limits)
    blueprint = Blueprint("image_transfer", __name__)
    blueprint.add_url_rule("/imagetransfer", "get", servlet.get, methods=["GET"])
    blueprint.add_url_rule("/imagetransfer", "put", servlet.put, methods=["PUT"])
    blueprint.add_url_rule("/getimage", "getimage", servlet.get, methods=["GET"])
    blueprint.register_error_handler(Exception, _answer_fault)
    return blueprint


class ServingLimits:
    """Changeable bandwidth limits of a servlet, each shared by all transfers of its kind."""

    def __init__(self, options: TransferOptions, counter: TransferCounter) -> None:
        self.sending = Throttle(options.bandwidth, count=counter.add_sent)
        self.bootstrapping = Throttle(options.bootstrap_bandwidth, count=counter.add_sent)
        self.receiving = Throttle(options.bandwidth, count=counter.add_received)

    def change(self, bandwidth: int, bootstrap_bandwidth: int) -> None:
        """Change the limits in bytes per second, or 0 if unlimited; new limits also apply to running transfers."""
        for throttle, limit in (
            (self.sending, bandwidth),
            (self.bootstrapping, bootstrap_bandwidth),
            (self.receiving, bandwidth),
        ):
            if throttle.bytes_per_second != limit:
                throttle.change(limit)


class _ImageServlet:
    def __init__(
        self, store: ImageStore, options: TransferOptions, admission: ImageAdmission, limits: ServingLimits
    ) -> None:
        self._store = store
        self._options = options
        self._admission = admission
        self._limits = limits

    def get(self) -> Response:
        self._admission.namespace()
        asked = parse_get(request.args)
        if asked.storage_info is not None:
            self._admission.check_storage(asked.storage_info)
        path = self._find(asked)
        bootstrap = isinstance(asked, GetImageRequest) and asked.bootstrap
        return self._send(path, self._limits.bootstrapping if bootstrap else self._limits.sending)

    def put(self) -> Response:
        self._admission.namespace()
        offered = parse_put(request.args)
        self._admission.check_storage(offered.storage_info)
        with self._admission.admitted(offered.txid, offered.kind):
            digest = parse_digest(request.headers.get(DIGEST_HEADER))
            self._check_announced(offered, digest)
            return self._receive(offered, digest)

    def _find(self, asked: GetImageRequest | GetEditRequest) -> Path:
        if isinstance(asked, GetEditRequest):
            path, what = (self._store.find_segment(asked.first, asked.last), f"segment {asked.first}-{asked.last}")
        elif asked.txid is None:
            path, what = self._store.latest_image(), "image at all"
        else:
            path, what = self._store.find_image(asked.txid), f"image at txid {asked.txid}"
        if path is None:
            raise NotFoundError(f"this server has no {what}, expected a finished file of that name")
        return path

    def _send(self, path: Path, throttle: Throttle) -> Response:
        file = open_regular(path, follow=False)
        try:
            size = os.fstat(file.fileno()).st_size
            digest = _stored_digest(path)
        except BaseException:
            file.close()
            raise
        answer = file_answer(file, path.name, size, chunk_size=self._options.chunk_size, throttle=throttle)
        if digest is not None:
            answer.headers[DIGEST_HEADER] = digest
        return answer

    def _check_announced(self, offered: PutImageRequest, digest: str | None) -> None:
        if digest is None:
            raise ImageRejectedError(
                f"the upload of txid {offered.txid} has no {DIGEST_HEADER}, expected the image's MD5",
                hint=f"Send {DIGEST_HEADER}, as Hadoop does.",
            )
        length = request.content_length
        if length is not None and length != offered.size:
            raise ImageRejectedError(f"the body has {length} bytes, but File-Length is {offered.size}")

    def _receive(self, offered: PutImageRequest, digest: str | None) -> Response:
        began = time.monotonic()
        directories = self._store.image_directories()
        with ImageReceiver(directories, offered.txid, rollback=offered.kind.rollback, verified=True) as receiver:
            self._read_body(offered, receiver)
            image = receiver.commit(size=offered.size, md5=digest)
        sentence = self._admission.received(offered.txid, offered.kind, image, time.monotonic() - began)
        return sentence_response(200, sentence)

    def _read_body(self, offered: PutImageRequest, receiver: ImageReceiver) -> None:
        throttle = self._limits.receiving
        body = cast(io.RawIOBase, request.stream)
        with throttle.transfer():
            while count := self._read_piece(body, offered, receiver.room(throttle.piece(_PIECE)), receiver.size):
                if receiver.size + count > offered.size:
                    raise ImageRejectedError(f"the body continues after byte {offered.size}, the File-Length")
                throttle.acquire(count)
                receiver.took(count)

    def _read_piece(self, body: io.RawIOBase, offered: PutImageRequest, room: memoryview, received: int) -> int:
        try:
            return body.readinto(room) or 0
        except (ClientDisconnected, OSError, ValueError) as fault:
            raise ImageRejectedError(
                f"the body was interrupted after {received} bytes, but File-Length is {offered.size}: {fault}",
                hint="Upload the image again.",
            ) from fault


def _stored_digest(path: Path) -> str | None:
    # segments have no digest file; as in Hadoop, serve an image even if its digest file is missing
    try:
        return read_md5_file(path).hex()
    except MissingDigestError:
        return None


def _answer_fault(fault: Exception) -> Response:
    """Respond with 410 to any fault that is not a refusal, as Hadoop's servlet does."""
    if isinstance(fault, ServletError):
        # every standby of Hadoop offers each of its images to all other nodes of the nameservice
        level = logging.INFO if isinstance(fault, NotActiveError) else logging.WARNING
        _LOG.log(level, "%s %s is refused: %s", request.method, request.path, fault, extra=_who(fault.status))
        return sentence_response(fault.status, str(fault))
    if isinstance(fault, HTTPException):
        return sentence_response(fault.code or 500, f"{fault.name}: {fault.description}")
    if isinstance(fault, (HdfsError, OSError)):
        _LOG.error("%s %s failed: %s", request.method, request.path, error_text(fault), extra=_who(410))
        return sentence_response(410, f"the transfer failed: {error_text(fault)}")
    _LOG.error("%s %s failed because of a bug", request.method, request.path, exc_info=fault)
    return sentence_response(410, "the transfer failed because of a bug in this server; see its log")


def _who(status: int) -> dict[str, object]:
    return {"peer": request.remote_addr, "status": int(status)}
