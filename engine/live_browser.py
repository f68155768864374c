"""Read access to a warm namespace for one request."""

from __future__ import annotations

from engine.live_content import ContentWalk
from engine.live_inodes import LiveInodes
from image_format.varint import read_record
from image_tools.namespace_browser import ContentTotals, Enter, LocatedInode


class LiveBrowser(LiveInodes):
    """Inodes of a warm namespace, with the sums of its subtrees and the files that clients have open for writing."""

    def opened_a_file(self, client: str) -> bool:
        """Return whether a client has opened a file for writing since the base image was written."""
        return self.namespace.table.pool.find(client.encode("utf-8", "replace")) >= 0

    def has_open_file_in_base(self, client: str) -> bool:
        """Return whether any file that a client has open for writing is unchanged since the base image was written."""
        name, index = client.encode("utf-8", "replace"), self.index
        slots = index.slots_of(self.namespace.leases.unread_ids())
        data, place = index.inode_buffer.data, index.place("INODE")
        offsets = index.inode_offsets(slots[slots >= 0]).tolist()
        return any(name in read_record(data, offset, place).body.tobytes() for offset in offsets)

    def content(self, place: LocatedInode, enter: Enter | None = None) -> ContentTotals:
        """Return the sums of the subtree at an inode, as `ContentWalk` counts them.

        Raises:
            NamespaceBusyError: the namespace did not become available again after a pause.
            ReadRefusedError: only a NameNode can answer the request; see `ContentWalk.totals`.
        """
        if place.inode.directory.typeQuotas.quotas:
            self.refuse("summing a directory with quotas by storage type")
        return ContentWalk(self, enter).totals(place)
