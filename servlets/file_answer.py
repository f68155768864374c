"""A file as the body of an answer, with the headers that Hadoop's transfers look for (ImageServlet)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from flask import Response

from servlets.errors import ImageRejectedError
from servlets.parameters import NAME_HEADER
from servlets.throttle import Throttle

__all__ = ["file_answer"]


def file_answer(file: BinaryIO, name: str, size: int, *, chunk_size: int, throttle: Throttle) -> Response:
    """The first `size` bytes of `file`, which is called `name`; it is closed when they are sent or given up."""
    answer = Response(
        _chunks(file, name, size, chunk_size, throttle),
        content_type="application/octet-stream",
        direct_passthrough=True,
    )
    answer.call_on_close(file.close)
    answer.headers["Content-Length"] = str(size)
    answer.headers["Content-Disposition"] = f"attachment; filename={name}"
    answer.headers[NAME_HEADER] = name
    return answer


def _chunks(file: BinaryIO, name: str, size: int, chunk_size: int, throttle: Throttle) -> Iterator[bytes]:
    sent = 0
    while sent < size:
        chunk = file.read(min(chunk_size, size - sent))
        if not chunk:
            raise ImageRejectedError(f"{name} ended at byte {sent} while it was sent, expected {size} bytes")
        throttle.acquire(len(chunk))
        sent += len(chunk)
        yield chunk
