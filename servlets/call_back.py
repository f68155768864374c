"""Uploads of Hadoop 2.0 to 2.3: asked to, this side fetches the checkpoint from the caller (GetImageServlet)."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from flask import Response, request

from hadoop_common.endpoint import host_port
from servlets.application import sentence_response
from servlets.errors import BadRequestParametersError, ImageRejectedError
from servlets.image_admission import ImageAdmission
from servlets.image_store import ImageFetcher, ImageStore
from servlets.parameters import CallBackRequest, ImageKind, parse_call_back
from servlets.throttle import Throttle

__all__ = ["CallBackUpload"]


class CallBackUpload:
    """Answers `putimage=1`: checks as for a PUT, then fetches the image and answers when it is in place.

    Args:
        fetch: downloads and stores; None refuses such uploads.
        receiving: shared with the other uploads.
    """

    def __init__(
        self,
        store: ImageStore,
        admission: ImageAdmission,
        fetch: ImageFetcher | None,
        *,
        require_digest: bool,
        receiving: Throttle,
    ) -> None:
        self._store = store
        self._admission = admission
        self._fetch = fetch
        self._require_digest = require_digest
        self._receiving = receiving

    def answer(self) -> Response:
        self._admission.namespace()
        if self._fetch is None or request.method != "GET":
            raise BadRequestParametersError(
                "putimage is not served here, expected PUT /imagetransfer",
                hint="Upload by PUT, as Hadoop 2.4 and later do.",
            )
        asked = parse_call_back(request.args)
        info = self._admission.check_storage(asked.storage_info)
        with self._admission.admitted(asked.txid, ImageKind.IMAGE):
            began = time.monotonic()
            directories = self._store.image_directories()
            image = self._fetch(
                _caller(asked),
                asked.txid,
                info,
                directories,
                max_size=_room(directories),
                require_digest=self._require_digest,
                throttle=self._receiving,
            )
            said = self._admission.received(asked.txid, ImageKind.IMAGE, image, time.monotonic() - began)
        return sentence_response(200, said)


def _caller(asked: CallBackRequest) -> str:
    """Where to fetch from: the machine that is named, or the one the request came from."""
    machine = asked.machine or request.remote_addr
    if not machine:
        raise BadRequestParametersError("the caller's address is unknown, expected parameter machine")
    return f"http://{host_port(machine, asked.port)}"


def _room(directories: Sequence[Path]) -> int:
    """Free bytes of the roomiest directory: those that run full are left out, as long as one takes the image."""
    if not directories:
        raise ImageRejectedError(
            "there is no directory to store an image in, expected at least one",
            hint="Check the storage directories of this side.",
        )
    stats = [os.statvfs(directory) for directory in directories if directory.is_dir()]
    return max((stat.f_bavail * stat.f_frsize for stat in stats), default=0)
