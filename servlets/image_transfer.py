"""GET and PUT /imagetransfer: images and segments out, checkpoints in (ImageServlet)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from flask import Blueprint, Response, request
from werkzeug.exceptions import ClientDisconnected, HTTPException

from hadoop_common.errors import HdfsError
from hadoop_common.names import image_name
from hadoop_common.storage_info import StorageInfo
from image_format.errors import MissingDigestError
from image_format.md5_file import read_md5_file
from servlets.application import sentence_response
from servlets.errors import (
    AlreadyHaveImageError,
    ImageRejectedError,
    NotActiveError,
    NotFoundError,
    ServletError,
    StorageMismatchError,
)
from servlets.image_receiver import ImageReceiver
from servlets.parameters import (
    DIGEST_HEADER,
    NAME_HEADER,
    GetEditRequest,
    GetImageRequest,
    ImageKind,
    PutImageRequest,
    parse_digest,
    parse_get,
    parse_put,
)
from servlets.reservations import UploadReservations
from servlets.throttle import UNLIMITED, Throttle

__all__ = ["DEFAULT_CHUNK_SIZE", "ImageStore", "TransferOptions", "image_transfer_blueprint"]

_LOG = logging.getLogger(__name__)

DEFAULT_CHUNK_SIZE = 65536


class ImageStore(Protocol):
    """What the servlet asks of the process it runs in; methods are called from many threads."""

    def storage_info(self) -> StorageInfo:
        """The namespace this process holds; an HdfsError says why there is none yet."""

    def find_image(self, txid: int) -> Path | None:
        """`fsimage_TXID` or `fsimage_rollback_TXID`."""

    def latest_image(self) -> Path | None:
        """The newest `fsimage_TXID`."""

    def find_segment(self, first: int, last: int) -> Path | None:
        """The finalized segment with exactly these txids."""

    def image_directories(self) -> list[Path]:
        """The directories that hold images themselves (`.../current`)."""

    def is_active(self) -> bool:
        """Whether checkpoints may be uploaded here."""

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        """A sentence why a checkpoint is not wanted now (too recent, ...), None when it is."""

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        """An upload of `size` bytes is in place in every directory that took it, under its final name."""


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """Limits of the servlet: bytes a second over all transfers of one direction (0 = off), bytes a read."""

    require_digest: bool = True
    bandwidth: int = UNLIMITED
    bootstrap_bandwidth: int = UNLIMITED
    chunk_size: int = DEFAULT_CHUNK_SIZE


def image_transfer_blueprint(
    store: ImageStore,
    *,
    options: TransferOptions | None = None,
    reservations: UploadReservations | None = None,
) -> Blueprint:
    """The blueprint of /imagetransfer on `store`; pass `reservations` to see what is being uploaded."""
    servlet = _ImageServlet(store, options or TransferOptions(), reservations or UploadReservations())
    blueprint = Blueprint("image_transfer", __name__)
    blueprint.add_url_rule("/imagetransfer", "get", servlet.get, methods=["GET"])
    blueprint.add_url_rule("/imagetransfer", "put", servlet.put, methods=["PUT"])
    blueprint.register_error_handler(Exception, _answer_fault)
    return blueprint


class _ImageServlet:
    def __init__(self, store: ImageStore, options: TransferOptions, reservations: UploadReservations) -> None:
        self._store = store
        self._options = options
        self._reservations = reservations
        self._sending = Throttle(options.bandwidth)
        self._bootstrapping = Throttle(options.bootstrap_bandwidth)
        self._receiving = Throttle(options.bandwidth)

    def get(self) -> Response:
        asked = parse_get(request.args)
        if asked.storage_info is not None:
            self._check_storage(asked.storage_info)
        path = self._find(asked)
        bootstrap = isinstance(asked, GetImageRequest) and asked.bootstrap
        return self._send(path, self._bootstrapping if bootstrap else self._sending)

    def put(self) -> Response:
        offered = parse_put(request.args)
        self._check_storage(offered.storage_info)
        if not self._store.is_active():
            raise NotActiveError(
                f"this NameNode is not active, expected the active one for txid {offered.txid}",
                hint="Upload to the active NameNode.",
            )
        with self._reservations.reserve(offered.txid):
            self._check_wanted(offered)
            digest = parse_digest(request.headers.get(DIGEST_HEADER))
            self._check_announced(offered, digest)
            return self._receive(offered, digest)

    def _check_storage(self, theirs: str) -> None:
        try:
            ours = self._store.storage_info().colon_string()
        except HdfsError as fault:
            raise StorageMismatchError(f"this side holds no namespace yet: {fault}") from fault
        if theirs != ours:
            raise StorageMismatchError(
                f"storageInfo is {theirs[:200]!a}, this side holds {ours}",
                hint="Configure both sides for one cluster; after an upgrade start the checkpointer afresh.",
            )

    def _find(self, asked: GetImageRequest | GetEditRequest) -> Path:
        if isinstance(asked, GetEditRequest):
            path, what = (
                self._store.find_segment(asked.first, asked.last),
                f"segment {asked.first}-{asked.last}",
            )
        elif asked.txid is None:
            path, what = self._store.latest_image(), "image at all"
        else:
            path, what = self._store.find_image(asked.txid), f"image at txid {asked.txid}"
        if path is None:
            raise NotFoundError(f"there is no {what} here, expected a finished file of that name")
        return path

    def _send(self, path: Path, throttle: Throttle) -> Response:
        file = path.open("rb")
        try:
            size = os.fstat(file.fileno()).st_size
            digest = _stored_digest(path)
        except BaseException:
            file.close()
            raise
        answer = Response(
            _chunks(file, path, size, self._options.chunk_size, throttle),
            content_type="application/octet-stream",
            direct_passthrough=True,
        )
        answer.call_on_close(file.close)
        answer.headers["Content-Length"] = str(size)
        answer.headers["Content-Disposition"] = f"attachment; filename={path.name}"
        answer.headers[NAME_HEADER] = path.name
        if digest is not None:
            answer.headers[DIGEST_HEADER] = digest
        return answer

    def _check_wanted(self, offered: PutImageRequest) -> None:
        reason = self._store.checkpoint_rejection(offered.txid, offered.kind)
        if reason is not None:
            raise AlreadyHaveImageError(reason)
        name = image_name(offered.txid, offered.kind.rollback)
        if any((directory / name).exists() for directory in self._store.image_directories()):
            raise AlreadyHaveImageError(
                f"{name} is stored here already, expected an image of another txid",
                hint="Nothing needs to be done, the image need not be uploaded again.",
            )

    def _check_announced(self, offered: PutImageRequest, digest: str | None) -> None:
        if digest is None and self._options.require_digest:
            raise ImageRejectedError(
                f"the upload of txid {offered.txid} has no {DIGEST_HEADER}, expected the image's MD5",
                hint=f"Send {DIGEST_HEADER}, or let this side accept uploads without one.",
            )
        length = request.content_length
        if length is not None and length != offered.size:
            raise ImageRejectedError(f"the body has {length} bytes, File-Length says {offered.size}")

    def _receive(self, offered: PutImageRequest, digest: str | None) -> Response:
        began = time.monotonic()
        directories = self._store.image_directories()
        with ImageReceiver(directories, offered.txid, rollback=offered.kind.rollback) as receiver:
            self._read_body(offered, receiver)
            image = receiver.commit(size=offered.size, md5=digest)
        for fault in image.failures:
            _LOG.error("%s at txid %d was not stored everywhere: %s", offered.kind, offered.txid, fault)
        self._store.image_received(offered.txid, offered.kind, image.md5, image.size)
        seconds = time.monotonic() - began
        _LOG.info("received %s, %d bytes in %.1f s, md5 %s", image.paths[0].name, image.size, seconds, image.md5)
        return sentence_response(200, f"stored {image.paths[0].name}, {image.size} bytes, MD5 {image.md5}")

    def _read_body(self, offered: PutImageRequest, receiver: ImageReceiver) -> None:
        while chunk := self._read_chunk(offered, receiver.size):
            if receiver.size + len(chunk) > offered.size:
                raise ImageRejectedError(f"the body goes on after byte {offered.size}, the File-Length")
            self._receiving.acquire(len(chunk))
            receiver.write(chunk)

    def _read_chunk(self, offered: PutImageRequest, received: int) -> bytes:
        try:
            return request.stream.read(self._options.chunk_size)
        except (ClientDisconnected, OSError, ValueError) as fault:
            raise ImageRejectedError(
                f"the body broke off after {received} bytes, File-Length says {offered.size}: {fault}",
                hint="Upload the image again.",
            ) from fault


def _stored_digest(path: Path) -> str | None:
    # segments have no side file, and an image without one is still served, as Hadoop does
    try:
        return read_md5_file(path).hex()
    except MissingDigestError:
        return None


def _chunks(file: BinaryIO, path: Path, size: int, chunk_size: int, throttle: Throttle) -> Iterator[bytes]:
    sent = 0
    while sent < size:
        chunk = file.read(min(chunk_size, size - sent))
        if not chunk:
            raise ImageRejectedError(f"{path} ended at byte {sent} while it was sent, expected {size} bytes")
        throttle.acquire(len(chunk))
        sent += len(chunk)
        yield chunk


def _answer_fault(fault: Exception) -> Response:
    """What Hadoop's servlet does: any fault that is no refusal is 410."""
    if isinstance(fault, ServletError):
        _LOG.warning("%s %s is refused: %s", request.method, request.path, fault)
        return sentence_response(fault.status, str(fault))
    if isinstance(fault, HTTPException):
        return sentence_response(fault.code or 500, f"{fault.name}: {fault.description}")
    if isinstance(fault, (HdfsError, OSError)):
        _LOG.error("%s %s failed: %s", request.method, request.path, fault)
        return sentence_response(410, f"the transfer failed: {fault}")
    _LOG.error("%s %s failed in an unexpected way", request.method, request.path, exc_info=fault)
    return sentence_response(410, "the transfer failed for a reason of this server's own, its log says more")
