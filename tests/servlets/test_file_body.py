"""A file that is sent through a throttle."""

from __future__ import annotations

import io
import socket

import pytest

from hadoop_common.throttle import Throttle
from servlets.file_body import FileBody
from tests.clock import SleepingClock


@pytest.mark.parametrize("rate", [200_000, 5_000_000, 400_000_000])
@pytest.mark.parametrize("through_kernel", [False, True])
def test_a_file_is_sent_at_the_throttled_rate(tmp_path, rate, through_kernel):
    time = SleepingClock()
    throttle = Throttle(rate, clock=time, sleep=time.sleep)
    size = rate * 2 if rate < 10**7 else 8 << 20
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    body = FileBody(path.open("rb"), "file", size, throttle, 4096)
    if through_kernel:
        sent = _Counting()
        body.send_to(sent)
        assert (sent.total, sent.largest <= max(4096, rate // 20)) == (size, True)
    else:
        assert sum(map(len, body)) == size
    body.close()
    assert time.now - 1000.0 == pytest.approx(size / rate, rel=0.05)


class _Counting(socket.socket):
    """A socket that accepts everything."""

    total = largest = 0

    def sendfile(self, file: io.BufferedReader, offset: int = 0, count: int | None = None) -> int:
        assert offset == self.total
        assert count is not None
        self.total += count
        self.largest = max(self.largest, count)
        return count
