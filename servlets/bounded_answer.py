"""HTTP requests to servers of this cluster, with a bound on the size of answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from hadoop_common.cluster_session import ClusterSession

_MOST_BYTES = 1 << 20


class Answer(NamedTuple):
    """An answer; `content` ends after 1 MiB, however much the server sends; `challenge` is its WWW-Authenticate
    header.
    """

    status: int
    content: bytes
    challenge: str = ""

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace").strip()

    @property
    def json(self) -> Any:
        """The JSON value, None if the content is not JSON."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None


def ask(
    method: str,
    url: str,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | tuple[float, float | None],
) -> Answer:
    """Send a request without a body; redirections are answers.

    Args:
        timeout: seconds for the connection and for each wait, or for each of the two.

    Raises:
        requests.RequestException, urllib3.exceptions.HTTPError, OSError: there is no answer.
    """
    with (
        ClusterSession() as session,
        session.request(method, url, params=query, headers=headers, timeout=timeout, stream=True) as answer,
    ):
        content = answer.raw.read(_MOST_BYTES, decode_content=True)
        return Answer(answer.status_code, content, answer.headers.get("WWW-Authenticate", ""))
