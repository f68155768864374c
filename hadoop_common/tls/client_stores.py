"""Stores of a client that keys of its own name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStores:
    """Stores that are named one by one, not in ssl-client.xml.

    Attributes:
        key_store: None where we show no certificate; `trust_store`: None for whom the system trusts.
        keys: how the keys begin that name them, for hints.
    """

    key_store: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    trust_store: Path | None = None
    trust_password: str | None = field(default=None, repr=False)
    keys: str = ""
