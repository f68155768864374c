"""HTTP to servers of this cluster."""

from __future__ import annotations

import requests


class ClusterSession(requests.Session):
    """Without the proxies and .netrc of the environment, which are for other traffic; a redirection is an answer.

    A session of the library would read the whole body of a redirection, however long, even where it does not follow.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def get_redirect_target(self, resp: requests.Response) -> None:
        """There is none."""
