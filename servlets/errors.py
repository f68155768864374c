"""Errors of the servlets with the HTTP status of their responses, and responses that consist of one sentence."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import ClassVar

from flask import Response

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode

_MAX_REASON = 250
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")


def sentence_response(status: int, sentence: str) -> Response:
    """Return a response with `sentence` and a newline as plain text.

    A refusal also has the sentence in its status line, because Hadoop's clients log only the status line.
    """
    line: int | str = status if status < 400 else f"{int(status)} {_reason(sentence)}"
    return Response(sentence + "\n", status=line, content_type="text/plain; charset=utf-8")


class ServletError(HdfsError):
    """A refused request; `status` is the status of the response and the message is its body."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER
    status: ClassVar[HTTPStatus] = HTTPStatus.GONE


class StorageMismatchError(ServletError):
    """Refusal of a peer of another namespace, or by a node that has no namespace yet."""

    status = HTTPStatus.FORBIDDEN


class NotActiveError(ServletError):
    """Refusal of an image by a NameNode that is not active."""

    status = HTTPStatus.EXPECTATION_FAILED


class AlreadyHaveImageError(ServletError):
    """Refusal of an image that is already stored, is being stored, or is too recent to be accepted."""

    status = HTTPStatus.CONFLICT


class BadRequestParametersError(ServletError):
    """A request with a missing or malformed query parameter or header (410, as in Hadoop)."""


class NotFoundError(ServletError):
    """A request for transaction ids that no image or segment has (410, as in Hadoop)."""


class ImageRejectedError(ServletError):
    """Refusal of received data that is not the announced image, or could not be stored."""


class JournalRequestError(ServletError):
    """A request with a missing or malformed parameter of /getJournal (500, as in Hadoop)."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR


class JournalMismatchError(ServletError):
    """A request for a journal of another namespace."""

    status = HTTPStatus.FORBIDDEN


class NoSuchSegmentError(ServletError):
    """A request for a transaction id with which no segment of the journal begins."""

    status = HTTPStatus.NOT_FOUND


class HttpServerError(HdfsError):
    """Failure of a server to bind its address, or calls of its methods in the wrong order."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER


def _reason(sentence: str) -> str:
    text = " ".join(_UNPRINTABLE.sub(" ", sentence.encode("ascii", "replace").decode("ascii")).split())
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."
