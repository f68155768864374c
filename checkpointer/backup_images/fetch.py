"""Fetch of a backup image from the first NameNode that sends an intact image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from checkpointer.backup_images.image_folder import ImageFolder
from checkpointer.backup_images.offer import ImageOffer, ask_for_image
from checkpointer.errors import TransferError
from checkpointer.transfer.download import download_image
from engine.observer import Observer, SilentObserver
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import Throttle
from hadoop_common.transfer_counter import TransferCounter
from hadoop_rpc.errors import RpcError
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.namenode_protocol import NamenodeClient
from image_format.errors import ImageFormatError
from image_format.reader import ImageFile
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image
from site_config.cluster import NameNodeAddress, ask_state

_MAX_LISTED_ERRORS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Options of a fetch. `bandwidth` is in bytes per second, or 0 if unlimited; `timeout` is in seconds for each step.

    Attributes:
        txid: transaction id of the image; None means the newest image.
        keep: number of images to keep; 0 keeps all.
        deep: whether to check every record of the image before it is stored.
        user: the user name for the NameNode's RPC server.
    """

    txid: int | None = None
    keep: int = 0
    deep: bool = False
    user: str = ""
    timeout: float = 60.0
    bandwidth: int = 0


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """The stored image.

    Attributes:
        fetched: False if the folder already contained the image.
        notes: steps that failed, one sentence each.
    """

    txid: int
    path: Path
    md5: str
    size: int
    source: str
    fetched: bool
    version: Path | None
    removed: tuple[Path, ...] = ()
    notes: tuple[str, ...] = field(default=())


def fetch_image(
    sources: Sequence[NameNodeAddress], folder: ImageFolder, options: FetchOptions, observer: Observer | None = None
) -> StoredBackup:
    """Fetch the image from the first of `sources` that sends it, then remove surplus images.

    The phases are ask, compare, fetch (in bytes) and verify.

    Raises:
        TransferError: no NameNode sent the image.
        StorageError: the folder contains images of another namespace, is full, or cannot be written.
        ImageFormatError: the image is damaged at the NameNode (with `deep`).
    """
    watcher = observer or SilentObserver()
    notes: list[str] = []
    failures: list[TransferError] = []
    for source in sources:
        try:
            found = _fetch_from(source, folder, options, watcher, notes)
        except TransferError as error:
            failures.append(error)
            continue
        txid = found[0]
        # `images` omits unreadable images
        newest = max((image.txid for image in folder.images()), default=txid)
        is_old = options.txid is None and txid < newest
        if is_old:
            notes.append(
                f"the NameNode's newest image is at txid {txid}, but the folder contains an image at txid {newest}: "
                "the NameNode sent an old image, or was set back"
            )
        if options.txid is None:
            notes += _behind(source, txid, options)
        removed = tuple(folder.retain(options.keep, txid, set_back=is_old))
        tried = [error.message for error in failures]
        return StoredBackup(*found, removed, (*tried, *notes))
    if len(failures) == 1:
        raise failures[0]
    reasons = "; ".join(error.message for error in failures)
    raise TransferError("no NameNode sent the image", reasons, hint=failures[-1].hint)


def _behind(source: NameNodeAddress, txid: int, options: FetchOptions) -> list[str]:
    """Return a note if the NameNode is not active and has edits after its newest image. A standby can have an old image
    for a long time.
    """
    state = ask_state(source, user=options.user, timeout=options.timeout)
    if source.rpc is None or state is None or state is HAState.ACTIVE:
        return []
    try:
        with NamenodeClient(
            *source.rpc, user=options.user, timeout=options.timeout, connect_timeout=options.timeout
        ) as client:
            written = client.transaction_id()
    except RpcError:
        return []
    if written <= txid:
        return []
    lacking = counted(written - txid, "transaction")
    note = f"{source.http} is not active, and its image lacks {lacking} that this NameNode has in its edits"
    return [f"{note}: fetch again once an active NameNode sends its image"]


def _fetch_from(
    source: NameNodeAddress, folder: ImageFolder, options: FetchOptions, observer: Observer, notes: list[str]
) -> tuple[int, Path, str, int, str, bool, Path | None]:
    observer.phase("ask", None)
    offer = ask_for_image(source.http, options.txid, timeout=options.timeout)
    version = _version(source, options, notes)
    if version is not None:
        _same_cluster(folder, version)
    path = folder.path(offer.txid)
    observer.phase("compare", None)
    here = folder.has(offer.txid, offer.md5)
    if here:
        _verify(path, options, observer)
        if version is not None and _namespace_of(path) == version.namespace_id:
            folder.add_version(offer.txid, version, datetime.now(UTC))
    else:
        staged = _download(source, offer, folder, options, observer)
        _verify(staged, options, observer)
        _same_namespace(folder, staged, version, source)
        path = folder.put(staged, offer.md5, version, datetime.now(UTC))
    kept = folder.version_path(offer.txid)
    return offer.txid, path, offer.md5, offer.size, source.http, not here, kept if kept.is_file() else None


def _version(source: NameNodeAddress, options: FetchOptions, notes: list[str]) -> StorageInfo | None:
    """Return the NameNode's VERSION, or add the reason to `notes`; an image without VERSION is still useful."""
    if source.rpc is None:
        notes.append(f"VERSION is not stored: no RPC address of {source.http} is known")
        return None
    try:
        with NamenodeClient(
            *source.rpc, user=options.user, timeout=options.timeout, connect_timeout=options.timeout
        ) as client:
            return client.version_request().storage_info
    except RpcError as error:
        notes.append(f"VERSION is not stored: {error.message}")
        return None


def _download(
    source: NameNodeAddress, offer: ImageOffer, folder: ImageFolder, options: FetchOptions, observer: Observer
) -> Path:
    free = folder.free()
    if offer.size > free:
        raise StorageError(
            f"the image at txid {offer.txid} has {offer.size} bytes, but {folder.root} has {free} bytes free",
            hint="Free space on that disk, or first fetch with a smaller --keep.",
        )
    observer.phase("fetch", offer.size)
    counter = TransferCounter()

    def received(count: int) -> None:
        counter.add_received(count)
        observer.advance(counter.received)

    image = download_image(
        source.http,
        offer.txid,
        None,
        [folder.staging],
        timeout=options.timeout,
        throttle=Throttle(options.bandwidth, count=received),
        cancel=observer.cancelled,
    )
    if image.md5 != offer.md5:
        raise TransferError(
            offer.url,
            f"the image at txid {offer.txid} was announced with MD5 {offer.md5}, but the received file has {image.md5}",
            hint="Find out which of the NameNode's images is damaged, then fetch again.",
        )
    return image.paths[0]


def _verify(path: Path, options: FetchOptions, observer: Observer) -> None:
    if not options.deep:
        return
    observer.phase("verify", None)
    found = verify_image(path, limit=_MAX_LISTED_ERRORS)
    if not found.valid:
        listed = "; ".join(str(each) for each in found.findings.listed if each.severity is Severity.ERROR)
        raise ImageFormatError(
            f"the NameNode's image has {counted(found.findings.severities[Severity.ERROR], 'error')}: {listed}",
            file=path.name,
            hint="Run `checkpointer image verify` on the NameNode's own copy, which has the same contents.",
        )


def _namespace_of(path: Path) -> int:
    with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image:
        return image.ns_info().namespaceId


def _same_cluster(folder: ImageFolder, version: StorageInfo) -> None:
    held = folder.cluster_id()
    if held and held != version.cluster_id:
        raise _foreign(
            f"{folder.root} contains images of cluster {held}, but the NameNode belongs to {version.cluster_id}"
        )


def _same_namespace(folder: ImageFolder, staged: Path, version: StorageInfo | None, source: NameNodeAddress) -> None:
    try:
        found = _namespace_of(staged)
    except HdfsError as fault:
        raise TransferError(source.http, f"the image cannot be read: {fault}", hint=fault.hint) from fault
    if version is not None and version.namespace_id != found:
        raise TransferError(
            source.http,
            f"the image belongs to namespace {found}, but the NameNode's RPC server reports {version.namespace_id}",
            hint="Check that the HTTP and the RPC address belong to the same NameNode.",
        )
    held = folder.namespace_id()
    if held is not None and held != found:
        raise _foreign(
            f"{folder.root} contains images of namespace {held}, but the NameNode's image belongs to {found}"
        )


def _foreign(problem: str) -> StorageError:
    return StorageError(problem, hint="Specify another directory, or check which cluster the configuration belongs to.")
