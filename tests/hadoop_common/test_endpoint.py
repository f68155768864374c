from __future__ import annotations

import pytest

from hadoop_common.addresses import host_port, uri_scheme


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("qjournal://jn1:8485;[::1]:8485/ns", "qjournal"),
        ("FILE:///data", "file"),
        ("/data", ""),
        ("a b://c", ""),
        ("", ""),
    ],
)
def test_scheme_of_a_uri_with_any_authority(text: str, scheme: str) -> None:
    assert uri_scheme(text) == scheme


def test_ipv6_address_is_written_in_brackets() -> None:
    assert (host_port("::1", 8020), host_port("nn", 8020)) == ("[::1]:8020", "nn:8020")
