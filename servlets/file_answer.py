"""A file as the body of an answer, with the headers that Hadoop's transfers look for (ImageServlet)."""

from __future__ import annotations

from typing import BinaryIO

from flask import Response

from servlets.file_body import FileBody
from servlets.parameters import NAME_HEADER
from servlets.throttle import Throttle


def file_answer(file: BinaryIO, name: str, size: int, *, chunk_size: int, throttle: Throttle) -> Response:
    """The first `size` bytes of `file`, which is called `name`; it is closed when they are sent or given up.

    `chunk_size` is the least that goes out at a time under a limit, bytes.
    """
    body = FileBody(file, name, size, throttle, chunk_size)
    answer = Response(body, content_type="application/octet-stream", direct_passthrough=True)
    answer.headers["Content-Length"] = str(size)
    answer.headers["Content-Disposition"] = f"attachment; filename={name}"
    answer.headers[NAME_HEADER] = name
    return answer
