"""Reads for clients, with the same responses as from the checkpointer's daemon."""

from __future__ import annotations

from collections.abc import Callable

from checkpointer.serving.client_answers import NamespaceRead
from engine.live_browser import LiveBrowser
from engine.loaded_image import LoadedImage
from image_tools.namespace_browser import LocatedInode, Place, places_along
from image_tools.namespace_reads import NamespaceReads, components
from image_tools.permission_checker import PermissionChecker
from namenode_stub.names.paths import checked_path, client_path
from namenode_stub.refusals import SymlinkInPathError

_EVERYBODY = PermissionChecker("", frozenset(), superuser=True)
"""Permissions are stored, but not enforced."""


class ClientRead(NamespaceRead):
    """A read at an active NameNode, which does not refer clients to another NameNode."""

    @classmethod
    def of(cls, opened: Callable[[], LoadedImage], page_size: int) -> ClientRead:
        """Return read access to a namespace that does not change during the read."""
        browser = LiveBrowser(opened, lambda: None, bounded=False)
        return cls(browser, NamespaceReads(browser, _EVERYBODY, page_size))

    def find(self, text: str, *, follow: bool = True) -> Place:
        return super().find(checked_path(client_path(text)), follow=follow)

    def link_refusal(self, text: str) -> Exception:
        return SymlinkInPathError(f"{text} is or leads through a symbolic link")

    def nearest(self, text: str) -> LocatedInode:
        """Return the inode at a path, or the nearest existing directory above it."""
        places = places_along(self.browser, self.browser.root(), components(text.encode()))
        return next(each for each in reversed(places) if isinstance(each, LocatedInode))
