"""A moment or a range of transactions of an archive, as a URI that the driver resolves to files.

Separate from `pipeline.staged_archive`, which only the driver imports.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from urllib.parse import quote, unquote

from hadoop_common.addresses import uri_scheme

_SCHEME = "checkpointer-archive"


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """A selection of an archive's content.

    Attributes:
        location: directory or URL of the archive.
        as_of: text of a transaction id or a time; "" for the newest moment.
        branch: the history; "" for the only one.
        key_file: key of an encrypted archive, a path on the driver; "" if there is none.
        tokens: whether the restored image keeps delegation tokens and their keys.
        from_txid, to_txid: first and last transaction of the edits.
    """

    location: str
    as_of: str = ""
    branch: str = ""
    key_file: str = ""
    tokens: bool = False
    from_txid: int | None = None
    to_txid: int | None = None

    @property
    def uri(self) -> str:
        return f"{_SCHEME}:{quote(json.dumps(asdict(self)), safe='')}"

    @classmethod
    def parse(cls, uri: str) -> ArchiveQuery | None:
        """Return the query of a URI; None for other URIs."""
        if uri_scheme(uri) != _SCHEME:
            return None
        return cls(**json.loads(unquote(uri.partition(":")[2])))
