"""Fetches an image for the shelf: the first NameNode that gives a good one, verified before it gets its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from checkpointer.backup_images.image_folder import ImageFolder
from checkpointer.backup_images.offer import ImageOffer, ask_for_image
from checkpointer.errors import TransferError
from checkpointer.transfer.common import never
from checkpointer.transfer.download import download_image
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RpcError
from hadoop_rpc.namenode_protocol import NamenodeClient
from image_format.errors import ImageFormatError
from image_format.reader import ImageFile
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image
from servlets.throttle import Throttle
from site_config.cluster import NameNodeAddress

_LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How to fetch. `bandwidth` in bytes a second, 0 for no limit; `timeout` in seconds for each step.

    Attributes:
        txid: of the image; None is the newest.
        keep: images that stay, 0 for all.
        deep: check every record of the image before it is kept.
        user: whom the NameNode's RPC server takes us for.
    """

    txid: int | None = None
    keep: int = 0
    deep: bool = False
    user: str = ""
    timeout: float = 60.0
    bandwidth: int = 0
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    cancel: Callable[[], bool] = never


@dataclass(frozen=True, slots=True)
class FetchedImage:
    """What is on the shelf now. `fetched` is false where it was there already; `notes` are what did not work."""

    txid: int
    path: Path
    md5: str
    size: int
    source: str
    fetched: bool
    version: Path | None
    removed: tuple[Path, ...] = ()
    notes: tuple[str, ...] = field(default=())


class FetchProgress(Protocol):
    """Told what happens."""

    def begin(self, what: str, total: int | None) -> None:
        """A step begins: ask, compare, fetch or verify; `total` bytes are to come, None where that is not known."""

    def advance(self, count: int) -> None:
        """`count` more bytes came."""


class _SilentProgress:
    """Nobody is told."""

    def begin(self, what: str, total: int | None) -> None:
        """Nobody is told."""

    def advance(self, count: int) -> None:
        """Nobody is told."""


def fetch_image(
    sources: Sequence[NameNodeAddress], shelf: ImageFolder, options: FetchOptions, steps: FetchProgress | None = None
) -> FetchedImage:
    """Get the image from the first of `sources` that gives it, then remove what is more than to be kept.

    Raises:
        TransferError: none gave it.
        StorageError: the shelf holds images of another namespace, or is full or not writable.
        ImageFormatError: the image came as it was sent, but is damaged (with `deep`).
    """
    watching = steps or _SilentProgress()
    notes: list[str] = []
    failures: list[TransferError] = []
    for source in sources:
        try:
            found = _from(source, shelf, options, watching, notes)
        except TransferError as error:
            failures.append(error)
            continue
        txid = found[0]
        # One that cannot be read is not listed.
        newest = max((image.txid for image in shelf.images()), default=txid)
        if options.txid is None and txid < newest:
            notes.append(
                f"the NameNode's newest image is of txid {txid}, one of txid {newest} is here: it gave an old one, or "
                "was set back"
            )
        removed = tuple(shelf.retain(options.keep, txid))
        tried = [error.message for error in failures]
        return FetchedImage(*found, removed, (*tried, *notes))
    if len(failures) == 1:
        raise failures[0]
    reasons = "; ".join(error.message for error in failures)
    raise TransferError("no NameNode gave the image", reasons, hint=failures[-1].hint)


def _from(
    source: NameNodeAddress, shelf: ImageFolder, options: FetchOptions, steps: FetchProgress, notes: list[str]
) -> tuple[int, Path, str, int, str, bool, Path | None]:
    steps.begin("ask", None)
    offer = ask_for_image(source.http, options.txid, timeout=options.timeout)
    version = _version(source, options, notes)
    if version is not None:
        _same_cluster(shelf, version)
    path = shelf.path(offer.txid)
    steps.begin("compare", None)
    here = shelf.has(offer.txid, offer.md5)
    if here:
        _verify(path, options, steps)
        if version is not None and _namespace_of(path) == version.namespace_id:
            shelf.add_version(offer.txid, version, options.now())
    else:
        staged = _download(source, offer, shelf, options, steps)
        _verify(staged, options, steps)
        _same_namespace(shelf, staged, version, source)
        path = shelf.put(staged, offer.md5, version, options.now())
    kept = shelf.version_path(offer.txid)
    return offer.txid, path, offer.md5, offer.size, source.http, not here, kept if kept.is_file() else None


def _version(source: NameNodeAddress, options: FetchOptions, notes: list[str]) -> StorageInfo | None:
    """VERSION of the NameNode; an image without it is still worth having."""
    if source.rpc is None:
        notes.append(f"VERSION is not kept: no RPC address of {source.http} is known")
        return None
    try:
        with NamenodeClient(
            *source.rpc, user=options.user, timeout=options.timeout, connect_timeout=options.timeout
        ) as client:
            return client.version_request().storage_info
    except RpcError as error:
        notes.append(f"VERSION is not kept: {error.message}")
        return None


def _download(
    source: NameNodeAddress, offer: ImageOffer, shelf: ImageFolder, options: FetchOptions, steps: FetchProgress
) -> Path:
    free = shelf.free()
    if offer.size > free:
        raise StorageError(
            f"the image at txid {offer.txid} has {offer.size} bytes, {shelf.folder} has room for {free}",
            hint="Free space there, or fetch with a smaller --keep first.",
        )
    steps.begin("fetch", offer.size)
    image = download_image(
        source.http,
        offer.txid,
        None,
        [shelf.staging],
        timeout=options.timeout,
        throttle=Throttle(options.bandwidth, count=steps.advance),
        cancel=options.cancel,
    )
    if image.md5 != offer.md5:
        raise TransferError(
            offer.url,
            f"the image at txid {offer.txid} had MD5 {offer.md5} when asked for and {image.md5} when sent",
            hint="Look which of the NameNode's images is damaged, then fetch again.",
        )
    return image.paths[0]


def _verify(path: Path, options: FetchOptions, steps: FetchProgress) -> None:
    if not options.deep:
        return
    steps.begin("verify", None)
    found = verify_image(path, limit=_LISTED)
    if not found.valid:
        listed = "; ".join(str(each) for each in found.findings.listed if each.severity is Severity.ERROR)
        raise ImageFormatError(
            f"the NameNode's image has {found.findings.severities[Severity.ERROR]} errors: {listed}",
            file=path.name,
            hint="It is what the NameNode has: run `checkpointer image verify` on the NameNode's own copy.",
        )


def _namespace_of(path: Path) -> int:
    with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image:
        return image.ns_info().namespaceId


def _same_cluster(shelf: ImageFolder, version: StorageInfo) -> None:
    held = shelf.cluster_id()
    if held and held != version.cluster_id:
        raise _other(f"{shelf.folder} holds images of cluster {held}, the NameNode is of {version.cluster_id}")


def _same_namespace(shelf: ImageFolder, staged: Path, version: StorageInfo | None, source: NameNodeAddress) -> None:
    try:
        found = _namespace_of(staged)
    except HdfsError as fault:
        raise TransferError(source.http, f"the image cannot be read: {fault}", hint=fault.hint) from fault
    if version is not None and version.namespace_id != found:
        raise TransferError(
            source.http,
            f"the image is of namespace {found}, but the NameNode's RPC server says {version.namespace_id}",
            hint="Check that HTTP and RPC address are of one NameNode.",
        )
    held = shelf.namespace_id()
    if held is not None and held != found:
        raise _other(f"{shelf.folder} holds images of namespace {held}, the NameNode's image is of {found}")


def _other(problem: str) -> StorageError:
    return StorageError(problem, hint="Name another directory, or check which cluster the configuration is of.")
