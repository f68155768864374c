"""Parses the query parameters and headers of image transfers into typed requests (ImageServlet)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hadoop_common.image_servlet import DIGEST_HEADER, LATEST
from hadoop_common.names import ImageKind
from servlets.errors import BadRequestParametersError, JournalRequestError

_GETTERS = ("getimage", "getedit")
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_DIGEST = re.compile(r"[0-9a-fA-F]{32}")
_MAX_TXID = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class GetImageRequest:
    """`getimage=1`: the image at `txid`, or the newest image if `txid` is None (`txid=latest`)."""

    txid: int | None
    storage_info: str | None
    bootstrap: bool


@dataclass(frozen=True, slots=True)
class GetEditRequest:
    """`getedit=1`: the finalized segment from `first` to `last`."""

    first: int
    last: int
    storage_info: str | None


@dataclass(frozen=True, slots=True)
class PutImageRequest:
    """An upload: `size` is the image's length in bytes (`File-Length`)."""

    txid: int
    kind: ImageKind
    size: int
    storage_info: str


@dataclass(frozen=True, slots=True)
class JournalRequest:
    """`/getJournal`: the segment that begins with `segment_txid`; `namespace` is namespace and cluster id, if given."""

    journal_id: str
    segment_txid: int
    in_progress_ok: bool
    namespace: tuple[int, str] | None


def parse_get(args: Mapping[str, str]) -> GetImageRequest | GetEditRequest:
    """Parse the query of a GET request.

    Raises:
        BadRequestParametersError: the query does not contain exactly one of getimage and getedit, a transaction id is
            missing or malformed, or imageFile is unknown.
    """
    asked = [name for name in _GETTERS if name in args]
    if len(asked) != 1:
        found = " and ".join(asked) or "neither"
        raise BadRequestParametersError(f"the query must have one of getimage and getedit, but it has {found}")
    storage_info = args.get("storageInfo")
    _kind(args)
    if asked[0] == "getedit":
        first, last = _txid(args, "startTxId"), _txid(args, "endTxId")
        if last < first:
            raise BadRequestParametersError(f"endTxId {last} is before startTxId {first}")
        return GetEditRequest(first, last, storage_info)
    txid = None if args.get("txid") == LATEST else _txid(args, "txid")
    return GetImageRequest(txid, storage_info, bootstrap=args.get("bootstrapstandby", "").lower() == "true")


def parse_put(args: Mapping[str, str]) -> PutImageRequest:
    """Parse the query of an upload.

    Raises:
        BadRequestParametersError: txid, File-Length or storageInfo is missing or malformed, or imageFile is unknown.
    """
    txid = _txid(args, "txid")
    size = _number(args, "File-Length")
    if size <= 0:
        raise BadRequestParametersError(f"File-Length must be the image's size in bytes, but it is {size}")
    storage_info = _storage_info(args)
    return PutImageRequest(txid, _kind(args), size, storage_info)


def parse_journal(args: Mapping[str, str]) -> JournalRequest:
    """Parse the query of a GET request for a JournalNode's segment (GetJournalEditServlet).

    Raises:
        JournalRequestError: jid or segmentTxId is missing, or a parameter is malformed.
    """
    if not args.get("jid"):
        raise JournalRequestError("parameter jid is missing, expected the name of a journal")
    try:
        txid = _txid(args, "segmentTxId")
    except BadRequestParametersError as fault:
        raise JournalRequestError(fault.message) from fault
    namespace = None if "storageInfo" not in args else _namespace(args["storageInfo"])
    return JournalRequest(args["jid"], txid, args.get("inProgressOk", "").lower() != "false", namespace)


def _namespace(storage_info: str) -> tuple[int, str]:
    parts = storage_info.split(":", 3)
    if len(parts) != 4 or _NUMBER.fullmatch(parts[1]) is None:
        raise JournalRequestError(f"storageInfo is {_shown(storage_info)}, expected layout:namespaceID:cTime:clusterID")
    return int(parts[1]), parts[3]


def parse_digest(value: str | None) -> str | None:
    """Return the MD5 of an `X-MD5-Digest` header in lower case, or None if there is no header.

    Raises:
        BadRequestParametersError: the value is not 32 hexadecimal digits.
    """
    if value is None:
        return None
    if _DIGEST.fullmatch(value.strip()) is None:
        raise BadRequestParametersError(f"{DIGEST_HEADER} is {_shown(value)}, expected 32 hexadecimal digits")
    return value.strip().lower()


def _storage_info(args: Mapping[str, str]) -> str:
    storage_info = args.get("storageInfo", "")
    if not storage_info:
        raise BadRequestParametersError("storageInfo is missing, expected layout:namespaceID:cTime:clusterID")
    return storage_info


def _kind(args: Mapping[str, str]) -> ImageKind:
    name = args.get("imageFile", ImageKind.IMAGE.value)
    try:
        return ImageKind(name)
    except ValueError:
        known = " or ".join(kind.value for kind in ImageKind)
        raise BadRequestParametersError(f"imageFile is {_shown(name)}, expected {known}") from None


def _txid(args: Mapping[str, str], name: str) -> int:
    txid = _number(args, name)
    if not 0 <= txid <= _MAX_TXID:
        raise BadRequestParametersError(f"{name} is {txid}, expected a txid from 0 to {_MAX_TXID}")
    return txid


def _number(args: Mapping[str, str], name: str) -> int:
    text = args.get(name)
    if text is None:
        raise BadRequestParametersError(f"parameter {name} is missing, expected a decimal number")
    if _NUMBER.fullmatch(text) is None:
        raise BadRequestParametersError(f"parameter {name} is {_shown(text)}, expected a decimal number")
    return int(text)


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:80] + "…")
