"""Detection of Kerberos on a NameNode's web server with an OPTIONS request, which Hadoop's clients also send."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

from checkpointer.transfer.common import IMAGE_SERVLET
from hadoop_common.cluster_http import send_request
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.spnego import Spnego


def refuses_logins(base_url: str, *, timeout: float) -> bool:
    """Return whether the server accepts requests without a login, as Hadoop 3.3 does by default.

    OPTIONS does not call a servlet, so the server does not log the request. If the server does not answer, return
    False.
    """
    try:
        spnego = Spnego(urlsplit(base_url).hostname or "")
        answer = send_request("OPTIONS", base_url + IMAGE_SERVLET, headers=spnego.headers, timeout=timeout)
    except (KerberosError, OSError):
        return False
    # a server without Kerberos does not prove its identity
    with suppress(KerberosError):
        spnego.check(answer.status, answer.challenges)
    return spnego.ignored and answer.status == HTTPStatus.OK
