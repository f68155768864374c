"""Uploads to Hadoop 2.0 to 2.3: the NameNode is asked to fetch the checkpoint from here (GetImageServlet)."""

from __future__ import annotations

import http.client
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from checkpointer.transfer.common import (
    DEFAULT_TIMEOUT,
    LEGACY_SERVLET,
    MAX_SENTENCE_BYTES,
    TransferCancelledError,
    TransferInterruptedError,
    never,
    reason_of,
    refusal,
    servlet_url,
)
from checkpointer.transfer.connection import WaitCancelled, connection_for
from checkpointer.transfer.download import DownloadedImage, download_image
from checkpointer.transfer.send_loop import BodySender
from checkpointer.transfer.upload import UploadResult
from hadoop_common.storage_info import StorageInfo
from servlets.throttle import Throttle

__all__ = ["DEFAULT_ANSWER_TIMEOUT", "fetch_legacy_image", "legacy_upload"]

_LOG = logging.getLogger(__name__)

DEFAULT_ANSWER_TIMEOUT = 3600.0

_RESULTS = {result.value: result for result in UploadResult}


def fetch_legacy_image(
    base_url: str,
    txid: int,
    storage_info: StorageInfo,
    directories: Sequence[Path],
    *,
    max_size: int,
    require_digest: bool,
    throttle: Throttle,
) -> DownloadedImage:
    """The receiving side's call-back (`servlets.image_store.ImageFetcher`), for `image_transfer_blueprint(fetch=)`.

    Raises:
        TransferError: the image did not come, is damaged or too large; nothing is left in the directories.
    """
    return download_image(
        base_url,
        txid,
        storage_info,
        directories,
        servlet=LEGACY_SERVLET,
        max_size=max_size,
        require_digest=require_digest,
        throttle=throttle,
    )


def legacy_upload(
    target_url: str,
    txid: int,
    storage_info: StorageInfo,
    *,
    port: int,
    machine: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    answer_timeout: float = DEFAULT_ANSWER_TIMEOUT,
    cancel: Callable[[], bool] = never,
) -> UploadResult:
    """Ask the NameNode at `target_url` (`http://host:port`) to fetch the image at `txid` from this side.

    It fetches from `http://machine:port/getimage`, where this process must serve the image already; without
    `machine` from the address that this request comes from, which suits a server bound to all addresses. The
    answer comes when the NameNode has stored the image: `timeout` seconds bound the connect, `answer_timeout`
    that wait, and `cancel()` is asked at least every 0.25 s.

    Raises:
        TransferError: the NameNode answered anything but 200, 409 and 417.
        TransferInterruptedError: there was no connection, it broke, or no answer came in time.
        TransferCancelledError: `cancel()` became true; the NameNode may still fetch the image.
    """
    query = {"putimage": "1", "txid": str(txid), "port": str(port)}
    if machine is not None:
        query["machine"] = machine
    query["storageInfo"] = storage_info.colon_string()
    url = servlet_url(target_url, query, LEGACY_SERVLET)
    what = f"upload of the image at txid {txid}"
    if cancel():
        raise TransferCancelledError(url, f"{what} was cancelled before it began")
    began = time.monotonic()
    status, reason, body = _ask(url, what, timeout, answer_timeout, cancel)
    result = _RESULTS.get(status)
    if result is None:
        raise refusal(what, url, status, reason, body)
    seconds = time.monotonic() - began
    _LOG.info(
        "%s by call-back to %s: %s in %.1f s: %s",
        what,
        urlsplit(url).netloc,
        result.name,
        seconds,
        reason_of(status, reason, body),
        extra={"txid": txid, "target": urlsplit(url).netloc, "result": result.name, "seconds": round(seconds, 3)},
    )
    return result


def _ask(
    url: str, what: str, timeout: float, answer_timeout: float, cancel: Callable[[], bool]
) -> tuple[int, str, bytes]:
    """Status, reason and the beginning of the body of a GET whose answer may take its time."""
    parts = urlsplit(url)
    connection = connection_for(parts, timeout, cancel)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Connection": "close"})
        BodySender(connection, answer_timeout, cancel).wait_for_answer()
        with connection.getresponse() as answer:
            return answer.status, answer.reason, answer.read(MAX_SENTENCE_BYTES)
    except WaitCancelled as fault:
        raise TransferCancelledError(url, f"{what} was cancelled while the NameNode fetched the image") from fault
    except (OSError, http.client.HTTPException) as fault:
        raise TransferInterruptedError(
            url,
            f"{what} could not be asked for: {fault or type(fault).__name__}",
            hint="Check that the NameNode is up, and that it reaches this side's HTTP address.",
        ) from fault
    finally:
        connection.close()
