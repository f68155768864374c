"""File bodies of responses, sent by the kernel if possible and paced by a throttle (ImageServlet)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from flask import Response

from hadoop_common.image_servlet import NAME_HEADER
from hadoop_common.paced_socket import PacedSocket
from hadoop_common.throttle import Throttle
from servlets.errors import ImageRejectedError

_PIECE = 1 << 20


class FileBody:
    """A WSGI body with the first `size` bytes of `file`, named `name`; `HttpServer` sends it with `send_to`.

    Under a bandwidth limit, each piece contains the bytes of 0.05 s, but at least `least` bytes.
    """

    def __init__(self, file: BinaryIO, name: str, size: int, throttle: Throttle, least: int) -> None:
        self._file = file
        self._name = name
        self.size = size
        self._throttle = throttle
        self._least = least
        self._sent = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces, for a server without `send_to`."""
        for count in self._pieces():
            self._file.seek(self._sent)
            data = self._file.read(count)
            self._sent += len(data)
            yield data

    def send_to(self, connection: PacedSocket) -> None:
        """Send the whole body, with sendfile if `file` is a real file.

        Raises:
            ImageRejectedError: the file has become shorter.
            OSError: the connection broke, or the peer is too slow.
        """
        for count in self._pieces():
            self._sent += connection.sendfile(self._file, self._sent, count)

    def close(self) -> None:
        self._file.close()

    def _pieces(self) -> Iterator[int]:
        """Yield the size of each piece once the throttle permits it; the caller adds the sent bytes to `_sent`."""
        with self._throttle.transfer():
            while (left := self.size - self._sent) > 0:
                count = min(left, self._throttle.piece(max(_PIECE, self._least), self._least))
                self._throttle.acquire(count)
                before = self._sent
                yield count
                if self._sent == before:
                    raise ImageRejectedError(
                        f"{self._name} ended at byte {before} while it was sent, expected {self.size} bytes"
                    )


def file_answer(file: BinaryIO, name: str, size: int, *, chunk_size: int, throttle: Throttle) -> Response:
    """Return a response with the first `size` bytes of `file`, which the response closes at the end.

    `name` is the name of the file in headers and errors. `chunk_size` is the minimum number of bytes that are sent in
    one step under a bandwidth limit.
    """
    body = FileBody(file, name, size, throttle, chunk_size)
    answer = Response(body, content_type="application/octet-stream", direct_passthrough=True)
    answer.headers["Content-Length"] = str(size)
    answer.headers["Content-Disposition"] = f"attachment; filename={name}"
    answer.headers[NAME_HEADER] = name
    return answer
