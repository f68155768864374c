"""Checks of our storage directories: usability, one VERSION, an intact newest image, and space for the next image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from checkpointer.checks.facts import DirectoryFacts, Facts
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import CheckVerdict, Metric, State, worst
from checkpointer.set_back.start_over import unused_images_hint
from checkpointer.storage.disk_space import MIN_FREE_INODES, MIN_FREE_SPACE
from checkpointer.storage.inspector import MISSING_VERSION_HINT, StorageState, agree_on_version
from hadoop_common.errors import StorageError
from hadoop_common.quantities import counted
from image_format.codec_choice import advice_on_codec, class_of, codec_to_write

_RIGHTS_HINT = (
    "Allow the daemon's user to write to the directory and its `current`, and check that its disk is not read-only."
)

_NEW_HINT = (
    "Start the daemon: its start or its first checkpoint creates an image. If it is already running, `checkpointer "
    "status` shows why it does not use the directory, which may have been removed or not be mounted."
)

_NEXT_HINT = "The next checkpoint also writes an image there."
_NOT_USED_HINT = "The running daemon does not use the directory; `checkpointer status` shows why."

_INODES_HINT = "Find what fills that disk with files: `df -i`, then `du --inodes -x` from its mount point."

_LOST_PAST_HINT = (
    "If the NameNode was set back by mistake, `lost_past` is the state that it lost: keep it. Otherwise move it away, "
    'which ends this warning: docs/runbook.md, "Restore, rollback or a second NameNode with the same ids".'
)

# contents of folders with files that are set aside
_LOST = "files of a past that the NameNode has lost; keep the folder unless the NameNode was set back on purpose"
_NOT_COMPARED = (
    "files that could not be compared with the NameNode when this node started over; keep the folder until it is "
    "certain that the NameNode has an intact image and was not set back by mistake"
)
_UNFINISHED = (
    "files of a start-over that is not finished; do not remove the folder, because it may contain the last images"
)


class _Problem(NamedTuple):
    """A problem and its next step; if the step is "", the check's hint applies."""

    state: State
    text: str
    hint: str = ""


def check_storage(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that every directory is usable, that their VERSION files agree, and that the newest image is intact.

    The verdict contains the hint of the first problem with the worst state.
    """
    broken, broken_edits = _broken(facts.directories), _broken(facts.edits_directories)
    new = [each for each in facts.directories if each not in broken and _is_new(each)]
    details = [_line(each) for each in facts.directories]
    details += [_line(each, only_edits=True) for each in facts.edits_directories]
    if len(broken) == len(facts.directories):
        return _verdict([_Problem(State.CRITICAL, "no storage directory can be used", _repair(broken))], details)
    if broken_edits and len(broken_edits) == len(facts.edits_directories):
        text = "no directory for edits can be used"
        return _verdict([_Problem(State.CRITICAL, text, _repair(broken_edits))], details)
    problems = _not_used(facts)
    for found, configured, what in (
        (broken_edits, facts.edits_directories, "directories for edits"),
        (broken, facts.directories, "directories"),
    ):
        if found:
            text = f"{len(found)} of {len(configured)} {what} cannot be used"
            problems.append(_Problem(State.WARNING, text, _repair(found)))
    if new and len(new) + len(broken) == len(facts.directories):
        hint = _NEW_HINT
        if any(each.holder for each in new):
            hint = (
                "The daemon's first checkpoint creates an image; the `daemon` check shows whether the checkpoint fails."
            )
        return _verdict([*problems, _Problem(State.WARNING, "no image yet", hint)], details)
    found_by = (_agreement(facts), _image(facts, details), _unusable(facts, details), _lost_past(facts, details))
    problems += [each for each in (*found_by, _other_codec(facts)) if each is not None]
    if new:
        have = "directory has" if len(new) == 1 else "directories have"
        is_running = any(each.holder for each in facts.directories)
        is_used = not is_running or all(each.holder for each in new)
        hint = _NEXT_HINT if is_used else _NOT_USED_HINT
        problems.append(_Problem(State.WARNING, f"{len(new)} {have} no image yet", hint))
    image = facts.image.value
    metrics = () if image is None else (Metric("image", image.size, "B"),)
    whole = "" if image is None else f"the image at txid {image.txid} is intact"
    return _verdict(problems, details, metrics, whole)


def _verdict(
    problems: Sequence[_Problem], details: Sequence[str], metrics: tuple[Metric, ...] = (), whole: str = ""
) -> CheckVerdict:
    state = worst(each.state for each in problems)
    hint = next((each.hint for each in problems if each.state is state), "")
    return CheckVerdict(state, "; ".join(each.text for each in problems) or whole, tuple(details), metrics, hint)


def _other_codec(facts: Facts) -> _Problem | None:
    """Report that new images will not have the configured codec; return None if they will have it."""
    image = facts.image.value
    if image is None or image.codec is None or image.layout_version is None:
        return None
    written = codec_to_write(facts.codec, image.codec, image.layout_version)
    if written == facts.codec:
        return None
    return _Problem(
        State.WARNING,
        f"new images use {class_of(written)} instead of the configured {class_of(facts.codec)}",
        advice_on_codec(facts.codec, image.layout_version),
    )


def _repair(broken: Sequence[DirectoryFacts]) -> str:
    """Return the next steps for unusable directories, or "" if unknown."""
    hints = (each.listing.hint or (_RIGHTS_HINT if not each.writable else "") for each in broken)
    return " ".join(dict.fromkeys(filter(None, hints)))


def _broken(directories: Sequence[DirectoryFacts]) -> list[DirectoryFacts]:
    return [each for each in directories if each.listing.error or not each.writable]


def _is_new(each: DirectoryFacts) -> bool:
    """Return whether the daemon has not stored an image in the directory yet; it writes VERSION before the image."""
    listing = each.listing.value
    if listing is None:
        return False
    if listing.state is StorageState.HALF_FORMATTED:
        return listing.version is not None and not listing.segments
    return listing.state in (StorageState.MISSING, StorageState.NOT_FORMATTED)


def _line(each: DirectoryFacts, *, only_edits: bool = False) -> str:
    listing = each.listing.value
    if listing is None:
        return f"{each.root}: {each.listing.error}"
    # a directory for edits never contains an image
    state = StorageState.NORMAL if only_edits and listing.version is not None else listing.state
    access = "" if each.writable else ", not writable"
    held = f", in use by {each.holder}" if each.holder else ", not in use"
    return f"{each.root}: {state.value}{access}{held}"


def _agreement(facts: Facts) -> _Problem | None:
    found = [(each, each.listing.value) for each in facts.directories if each.listing.value is not None]
    listings = [listing for _, listing in found]
    half = [listing for each, listing in found if listing.state is StorageState.HALF_FORMATTED and not _is_new(each)]
    if half:
        text = f"{half[0].root} is half-formatted: VERSION or the image is missing"
        return _Problem(State.CRITICAL, text, "" if half[0].version else MISSING_VERSION_HINT)
    try:
        edits = [each.listing.value for each in facts.edits_directories if each.listing.value is not None]
        agree_on_version([*listings, *edits])
    except StorageError as fault:
        return _Problem(State.CRITICAL, fault.message, fault.hint)
    return None


def _image(facts: Facts, details: list[str]) -> _Problem | None:
    image = facts.image.value
    if image is None:
        return _Problem(State.UNKNOWN, f"the newest image could not be examined: {facts.image.error}")
    damaged = [(path, answer.error) for path, answer in image.copies if answer.error and not answer.late]
    late = [(path, answer.error) for path, answer in image.copies if answer.late]
    details += [f"{path}: {error}" for path, error in (*damaged, *late)]
    details += [f"{path}: MD5 {answer.value}" for path, answer in image.copies if answer.value]
    if len(damaged) == len(image.copies):
        text = f"every copy of the image at txid {image.txid} is damaged"
        return _Problem(State.CRITICAL, text, image.way_out)
    if len(damaged) + len(late) == len(image.copies):
        return _Problem(State.UNKNOWN, f"the image at txid {image.txid} could not be read in time; raise --timeout")
    if image.deep.error:
        return _Problem(State.UNKNOWN, f"the image's records could not be checked: {image.deep.error}")
    if image.deep.value:
        text = f"the image at txid {image.txid} has {counted(image.deep.value, 'error')} in its records"
        return _Problem(State.CRITICAL, text, _deep_hint(image.copies[0][0]))
    if damaged:
        text = f"{len(damaged)} of {len(image.copies)} copies of the newest image are damaged"
        return _Problem(State.WARNING, text)
    if late:
        text = f"{len(late)} of {len(image.copies)} copies of the newest image were not read in time"
        return _Problem(State.UNKNOWN, text)
    return None


def _deep_hint(path: Path) -> str:
    return (
        f"List the errors with `checkpointer image verify {path}`. Checkpoints copy them, so keep the older images. "
        "If a NameNode also has this image, do not restart it, and have it save an image itself: docs/runbook.md, "
        '"Gap in the edits", step 3.'
    )


def _unusable(facts: Facts, details: list[str]) -> _Problem | None:
    """Report files that have the name of an image but are not regular files; the daemon also skips them."""
    lines = [line for each in facts.directories for line in each.unusable]
    details += lines
    if not lines:
        return None
    # imports NumPy, which would delay the help of the commands
    from checkpointer.storage.usable_images import UNUSABLE_HINT

    hint = "" if facts.image.value is None else facts.image.value.way_out
    text = f"{counted(len(lines), 'file')} with the name of an image cannot be used"
    return _Problem(State.WARNING, text, hint or UNUSABLE_HINT)


def _not_used(facts: Facts) -> list[_Problem]:
    """Report images that the daemon does not use, because an operator could otherwise use them."""
    everywhere = (*facts.directories, *facts.edits_directories)
    begun = next((each.start_over for each in everywhere if each.start_over is not None), None)
    if begun is None:
        return []
    text = f"the images here are not used: {begun.cause}"
    return [_Problem(State.WARNING, text, unused_images_hint(begun.parent))]


def _lost_past(facts: Facts, details: list[str]) -> _Problem | None:
    """Report lost pasts, which an operator has to examine, and list the other folders with files that are set aside."""
    everywhere = (*facts.directories, *facts.edits_directories)
    unfinished = {each.root / begun.parent / begun.folder for each in everywhere if (begun := each.start_over)}
    lost = [folder for each in everywhere for folder in each.lost_pasts]
    not_compared = [folder for each in everywhere for folder in each.not_compared]
    details += [
        f"{folder}: {_UNFINISHED if folder in unfinished else text}"
        for folders, text in ((lost, _LOST), (not_compared, _NOT_COMPARED))
        for folder in folders
    ]
    finished = [folder for folder in lost if folder not in unfinished]
    text = f"{counted(len(finished), 'lost past')} set aside"
    return _Problem(State.WARNING, text, _LOST_PAST_HINT) if finished else None


def check_space(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that each disk has space for two images as large as the newest image, plus
    `dfs.namenode.resource.du.reserved`.

    A directory that contains only edits needs only the reserved space. Command-line thresholds apply to both kinds.
    Each disk also needs some free inodes.
    """
    size = 0 if facts.image.value is None else facts.image.value.size
    # with less free space, the daemon does not begin its first image
    needed = (2 * size or MIN_FREE_SPACE) + facts.reserved
    measured = [_space(each, needed, thresholds) for each in facts.directories]
    measured += [_space(each, facts.reserved, thresholds) for each in facts.edits_directories]
    known = [each for each in measured if each is not None]
    everywhere = (*facts.directories, *facts.edits_directories)
    errors = tuple(f"{each.root}: {each.free.error}" for each in everywhere if each.free.error)
    details = (*(each.line for each in known), *errors)
    full = [each for each in everywhere if each.inodes.value is not None and each.inodes.value < MIN_FREE_INODES]
    if full:
        summary = f"{counted(full[0].inodes.value or 0, 'inode')} free on {full[0].root}, {MIN_FREE_INODES} needed"
        return CheckVerdict(State.CRITICAL, summary, details, tuple(each.metric for each in known[:1]), _INODES_HINT)
    if not known:
        return CheckVerdict(State.UNKNOWN, "the free space of every directory is unknown", details)
    # the summary describes the directory nearest to its limits
    tightest = min(known, key=lambda each: (-each.metric.state(), each.metric.value - each.needed))
    state = worst([tightest.metric.state(), State.WARNING if errors else State.OK])
    return CheckVerdict(state, tightest.summary, details, (tightest.metric,))


@dataclass(frozen=True, slots=True)
class _Space:
    """Free and needed space of a directory, in bytes."""

    root: Path
    metric: Metric
    needed: int

    @property
    def line(self) -> str:
        return f"{self.root}: {self.metric.value} bytes free, {self.needed} bytes needed"

    @property
    def summary(self) -> str:
        return f"{_gigabytes(int(self.metric.value))} free on {self.root}, {_gigabytes(self.needed)} needed"


def _space(each: DirectoryFacts, needed: int, thresholds: Thresholds) -> _Space | None:
    if each.free.value is None:
        return None
    limits = thresholds.limits("space", 2 * needed, needed)
    metric = Metric("space", each.free.value, "B", limits.warning, limits.critical, below=True)
    return _Space(each.root, metric, needed)


def _gigabytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
