from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hadoop_common.names import ImageKind
from servlets.errors import BadRequestParametersError
from servlets.transfer_requests import (
    GetEditRequest,
    GetImageRequest,
    PutImageRequest,
    parse_digest,
    parse_get,
    parse_put,
)

GOOD_PUT = {"txid": "7", "File-Length": "9", "storageInfo": "-63:1:0:CID"}
NAMES = st.sampled_from(
    ["getimage", "getedit", "txid", "startTxId", "endTxId", "storageInfo", "File-Length", "imageFile", "x"]
)
VALUES = st.one_of(
    st.text(max_size=25),
    st.integers().map(str),
    st.sampled_from(["latest", "IMAGE", "IMAGE_ROLLBACK", "-1", "0", "1e3", "٣", "1_000", " 5", "5\n", "9" * 19]),
)


def test_parameters_of_get_image():
    assert parse_get({"getimage": "1", "txid": "42"}) == GetImageRequest(42, None, bootstrap=False)
    assert parse_get({"getimage": "1", "txid": "latest"}) == GetImageRequest(None, None, bootstrap=False)
    asked = parse_get({"getimage": "1", "txid": "1", "storageInfo": "s", "bootstrapstandby": "True"})
    assert asked == GetImageRequest(1, "s", bootstrap=True)


def test_parameters_of_get_edit():
    asked = parse_get({"getedit": "1", "startTxId": "3", "endTxId": "9", "storageInfo": "s"})
    assert asked == GetEditRequest(3, 9, "s")


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"getimage": "1"},
        {"getimage": "1", "getedit": "1", "txid": "1", "startTxId": "1", "endTxId": "1"},
        {"getimage": "1", "txid": "-1"},
        {"getimage": "1", "txid": "9223372036854775808"},
        {"getimage": "1", "txid": "٣"},
        {"getedit": "1", "startTxId": "5", "endTxId": "4"},
        {"getedit": "1", "startTxId": "5"},
        {"getedit": "1", "startTxId": "latest", "endTxId": "latest"},
    ],
)
def test_malformed_get_parameters_are_refused(query):
    with pytest.raises(BadRequestParametersError):
        parse_get(query)


def test_parameters_of_put_image():
    assert parse_put(GOOD_PUT) == PutImageRequest(7, ImageKind.IMAGE, 9, "-63:1:0:CID")
    assert parse_put({**GOOD_PUT, "imageFile": "IMAGE_ROLLBACK"}).kind is ImageKind.ROLLBACK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("txid", "-1"),
        ("txid", "seven"),
        ("File-Length", "0"),
        ("File-Length", "-5"),
        ("File-Length", ""),
        ("storageInfo", ""),
        ("imageFile", "EDITS"),
    ],
)
def test_the_error_for_a_bad_put_names_parameter_and_value(name, value):
    with pytest.raises(BadRequestParametersError, match=name) as caught:
        parse_put({**GOOD_PUT, name: value})
    assert value in str(caught.value)


@pytest.mark.parametrize("name", ["txid", "File-Length", "storageInfo"])
def test_a_missing_put_parameter_is_refused(name):
    with pytest.raises(BadRequestParametersError, match=f"{name} is missing"):
        parse_put({key: value for key, value in GOOD_PUT.items() if key != name})


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(NAMES, VALUES))
def test_garbage_is_parsed_or_refused(query):
    for parse in (parse_get, parse_put):
        asked = None
        with contextlib.suppress(BadRequestParametersError):
            asked = parse(query)
        txids = [getattr(asked, name, None) for name in ("txid", "first", "last")]
        assert all(txid is None or 0 <= txid < 1 << 63 for txid in txids)


def test_digests_are_trimmed_and_lowercased():
    assert parse_digest(None) is None
    assert parse_digest(" " + "Ab" * 16) == "ab" * 16


@given(st.text().filter(lambda text: len(text.strip()) != 32))
def test_a_malformed_digest_is_refused(text):
    with pytest.raises(BadRequestParametersError):
        parse_digest(text)
