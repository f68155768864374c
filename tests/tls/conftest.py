"""TLS settings are global to the process, so each test resets them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hadoop_common.tls.reloading import use_client
from hadoop_common.tls.settings import TlsConfig


@pytest.fixture(autouse=True)
def nobody_is_trusted() -> Iterator[None]:
    yield
    use_client(TlsConfig())
