"""Errors of the servlets: each knows the HTTP status it is answered with."""

from __future__ import annotations

from http import HTTPStatus
from typing import ClassVar

from hadoop_common.errors import EXIT_TRANSFER, HdfsError


class ServletError(HdfsError):
    """A request that is refused; `status` goes into the answer and the message becomes its body."""

    exit_code: ClassVar[int] = EXIT_TRANSFER
    status: ClassVar[HTTPStatus] = HTTPStatus.GONE


class StorageMismatchError(ServletError):
    """The peer belongs to another namespace, or this side has no namespace yet."""

    status = HTTPStatus.FORBIDDEN


class NotActiveError(ServletError):
    """An image was offered to a NameNode that is not active."""

    status = HTTPStatus.EXPECTATION_FAILED


class AlreadyHaveImageError(ServletError):
    """An image that is stored, being stored or not wanted yet was offered."""

    status = HTTPStatus.CONFLICT


class BadRequestParametersError(ServletError):
    """A query parameter or header is missing or malformed (410, as Hadoop answers)."""


class NotFoundError(ServletError):
    """No image or segment goes by the txids that were asked for (410, as Hadoop answers)."""


class ImageRejectedError(ServletError):
    """What arrived is not the image that was announced, or it could not be stored."""


class JournalRequestError(ServletError):
    """A parameter of /getJournal is missing or malformed (500, as Hadoop answers)."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR


class JournalMismatchError(ServletError):
    """The journal that is asked for is of another namespace."""

    status = HTTPStatus.FORBIDDEN


class NoSuchSegmentError(ServletError):
    """No segment of the journal begins with the txid."""

    status = HTTPStatus.NOT_FOUND


class HttpServerError(HdfsError):
    """The server could not bind its address or is used in the wrong order."""

    exit_code: ClassVar[int] = EXIT_TRANSFER
