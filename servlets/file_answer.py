"""Answers with a file as body, with the headers that Hadoop's transfers expect (ImageServlet)."""

from __future__ import annotations

from typing import BinaryIO

from flask import Response

from servlets.file_body import FileBody
from servlets.parameters import NAME_HEADER
from servlets.throttle import Throttle


def file_answer(file: BinaryIO, name: str, size: int, *, chunk_size: int, throttle: Throttle) -> Response:
    """Return an answer with the first `size` bytes of `file`, which has the name `name` and is closed at the end.

    `chunk_size` is the minimum sent at once under a limit, in bytes.
    """
    body = FileBody(file, name, size, throttle, chunk_size)
    answer = Response(body, content_type="application/octet-stream", direct_passthrough=True)
    answer.headers["Content-Length"] = str(size)
    answer.headers["Content-Disposition"] = f"attachment; filename={name}"
    answer.headers[NAME_HEADER] = name
    return answer
