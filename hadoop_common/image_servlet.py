"""Names of parameters and headers in image transfers (ImageServlet)."""

from __future__ import annotations

DIGEST_HEADER = "X-MD5-Digest"
NAME_HEADER = "X-Image-Edits-Name"
LATEST = "latest"
"""The value of `txid` that requests the newest image."""
