"""Query for the image that a NameNode would send, which reads only the headers of GET /imagetransfer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from checkpointer.errors import TransferError
from checkpointer.transfer.common import MAX_SENTENCE_BYTES, login_faults, refusal, servlet_url, unreachable_hint
from hadoop_common.file_faults import network_reason
from hadoop_common.image_servlet import DIGEST_HEADER, LATEST, NAME_HEADER
from hadoop_common.names import parse_image
from hadoop_rpc.spnego import open_logged_in
from servlets.errors import BadRequestParametersError
from servlets.transfer_requests import parse_digest


@dataclass(frozen=True, slots=True)
class ImageOffer:
    """An image that a NameNode announces: hexadecimal digest and size in bytes."""

    url: str
    txid: int
    md5: str
    size: int


def ask_for_image(base_url: str, txid: int | None, *, timeout: float) -> ImageOffer:
    """Query the image at `txid` (None: the newest), and disconnect after the headers.

    Hadoop's servlet has no cheaper request, because HEAD reads the whole image (HttpServlet.doHead over ImageServlet).

    Raises:
        TransferError: no response, a refusal, or headers without the image's name and digest.
    """
    wanted = LATEST if txid is None else str(txid)
    url = servlet_url(base_url, {"getimage": "1", "txid": wanted, "imageFile": "IMAGE"})
    what = f"image at txid {wanted}"
    try:
        with login_faults(what, url), open_logged_in(url, timeout=timeout) as (answer, spnego):
            if answer.status != HTTPStatus.OK:
                body = answer.read(MAX_SENTENCE_BYTES)
                raise refusal(what, url, answer.status, answer.reason or "", body, spnego.hint)
            return _offer(url, answer.headers)
    except OSError as fault:
        raise TransferError(
            url, f"{what} could not be requested: {network_reason(fault)}", hint=unreachable_hint(fault)
        ) from fault


def _offer(url: str, headers: Mapping[str, str]) -> ImageOffer:
    image = parse_image(headers.get(NAME_HEADER, ""))
    length = headers.get("Content-Length", "")
    try:
        digest = parse_digest(headers.get(DIGEST_HEADER))
    except BadRequestParametersError as fault:
        raise TransferError(url, str(fault), hint="Check that the address is a NameNode's.") from fault
    if image is None or not (length.isascii() and length.isdigit()):
        raise TransferError(
            url,
            f"the response does not identify an image: name {headers.get(NAME_HEADER)!r}, length {length!r}",
            hint="Check that the address is a NameNode's and that no proxy is in between.",
        )
    if digest is None:
        raise TransferError(
            url,
            f"the image at txid {image.txid} is sent without {DIGEST_HEADER}, so damage in transit would go unnoticed",
            hint="Check that the NameNode has the image's .md5 file.",
        )
    return ImageOffer(url, image.txid, digest, int(length))
