"""Outcome of offering a new image to the NameNodes: accepted, refused, not transferred, or without an active
NameNode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from checkpointer.transfer import UploadResult
from checkpointer.transfer.image_acceptance import longer_period, too_recent, upload_hint
from checkpointer.transfer.upload_target import STANDBY, Upload, UploadTarget
from hadoop_common.exit_codes import ExitCode
from hadoop_common.names import ImageKind
from hadoop_common.quantities import clock_text, duration


class Acceptance(Enum):
    """Combined outcome of an image at all NameNodes."""

    ACCEPTED = "taken"
    TOO_RECENT = "too recent"
    REFUSED = "refused"
    FAILED = "failed"
    NOBODY = "nobody"
    KEPT = "kept"


_EXIT_CODES = {
    Acceptance.ACCEPTED: 0,
    Acceptance.TOO_RECENT: ExitCode.NOT_ACCEPTED,
    Acceptance.REFUSED: ExitCode.NOT_ACCEPTED,
    Acceptance.FAILED: ExitCode.TRANSFER,
    Acceptance.NOBODY: ExitCode.NOT_ACCEPTED,
    Acceptance.KEPT: 0,
}
_ROLLBACK_HINT = (
    "The daemon offers the rollback image again automatically. If no other upload to that NameNode is in progress, "
    "fail over, because that NameNode may remember a later image that it refused."
)


@dataclass(frozen=True, slots=True)
class UploadOutcome:
    """Outcome of offering an image to the NameNodes, and the report about the outcome.

    Attributes:
        problem: reason why no active NameNode has the image, "" if a NameNode that may be active has the image.
        hint: next step if there is a problem.
        warnings: one sentence per warning.
        again_at: time when a NameNode that refused the image accepts an image, in seconds since the epoch; None if
            unknown.
    """

    acceptance: Acceptance
    problem: str = ""
    hint: str = ""
    warnings: tuple[str, ...] = ()
    again_at: float | None = None

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.acceptance]

    def details(self) -> dict[str, Any]:
        """Return the fields for the response to a request."""
        fields: dict[str, Any] = {"outcome": self.acceptance.value, "warnings": list(self.warnings)}
        if self.exit_code:
            fields |= {"exitCode": self.exit_code, "hint": self.hint, "takesFrom": self.again_at}
        return fields


def outcome_of(
    txid: int,
    kind: ImageKind,
    made: Sequence[Upload],
    targets: Sequence[UploadTarget],
    *,
    takes_from: Callable[[str], float | None],
    now: float,
    period: float,
    shadow: bool = False,
    observers: Collection[str] = (),
    inactive: Collection[str] = (),
) -> UploadOutcome:
    """Return the outcome of the image at `txid`; in `shadow` mode, the daemon never offers the image.

    Args:
        made: the uploads of this attempt.
        targets: state of all NameNodes after the attempt.
        takes_from: returns the time when a NameNode accepts an image again, in seconds since the epoch; None if
            unknown.
        now: seconds since the epoch.
        period: dfs.namenode.checkpoint.period of this daemon, in seconds.
        observers: addresses of observers, which do not decide the outcome, because the active NameNode needs the image.
        inactive: addresses of observers and standbys at the last query. A standby that accepts the image in this
            attempt has become active since then.
    """
    if shadow:
        return UploadOutcome(Acceptance.KEPT, warnings=("shadow mode uploads nothing; the image remains on this host",))
    if not targets:
        return UploadOutcome(
            Acceptance.KEPT, warnings=("no other NameNode is configured; the image remains on this host",)
        )
    offers = [each for each in made if each.kind is kind]
    accepting = {each.address for each in offers if each.result == UploadResult.SUCCESS.name}.difference(observers)
    accepting |= {each.address for each in targets if each.has(txid, kind)}.difference(observers, inactive)
    if accepting:
        refusals = _sentences(_refusals(txid, kind, offers, targets))
        return UploadOutcome(Acceptance.ACCEPTED, warnings=(*_failures(offers), *refusals))
    offers = [each for each in offers if each.address not in observers]
    targets = [each for each in targets if each.address not in observers]
    failed, refused = _failures(offers), _refusals(txid, kind, offers, targets)
    if refused:
        times = [at for at in map(takes_from, refused) if at is not None]
        again_at = min(times, default=None)
        recent = again_at is not None or any(map(too_recent, refused.values()))
        acceptance = Acceptance.TOO_RECENT if recent else Acceptance.REFUSED
        other = next(filter(None, (longer_period(each, period) for each in refused.values())), "")
        hint = _ROLLBACK_HINT if kind.rollback else f"{other} {_when_refused(recent, again_at, now)}".lstrip()
        return UploadOutcome(acceptance, "; ".join(_sentences(refused)), hint, failed, again_at)
    if failed:
        return UploadOutcome(Acceptance.FAILED, "; ".join(failed), upload_hint("; ".join(failed)))
    return UploadOutcome(
        Acceptance.NOBODY,
        "; ".join(_absence(each) for each in targets) or "all NameNodes are observers; none is active",
        "The daemon will offer the image to the active NameNode; see hdfs haadmin -getAllServiceState.",
    )


def _failures(offers: Sequence[Upload]) -> tuple[str, ...]:
    return tuple(f"upload to {each.address} failed: {each.error}" for each in offers if each.error)


def _sentences(refusals: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{address} refused it: {reason}" for address, reason in refusals.items())


def _absence(target: UploadTarget) -> str:
    """Return the reason why a NameNode lacks the image although there was neither a refusal nor a failure."""
    if target.result in (STANDBY, UploadResult.NOT_ACTIVE_NAMENODE_FAILURE.name):
        return f"{target.address} is not active" + (f" ({target.error})" if target.error else "")
    return f"{target.address} was not offered the image; see the daemon's log"


def _refusals(txid: int, kind: ImageKind, offers: Sequence[Upload], targets: Sequence[UploadTarget]) -> dict[str, str]:
    """Return, by address, the reasons why NameNodes that accept images refused this image, now or earlier."""
    earlier = {
        each.address: each.error or each.result
        for each in targets
        if each.result == UploadResult.OLD_TRANSACTION_ID_FAILURE.name and each.refused.get(kind, -1) >= txid
    }
    return earlier | {
        each.address: each.refusal
        for each in offers
        if each.refusal and each.result == UploadResult.OLD_TRANSACTION_ID_FAILURE.name
    }


def _when_refused(recent: bool, again_at: float | None, now: float) -> str:
    if again_at is not None:
        return (
            f"The NameNode accepts the next image from {clock_text(again_at, now)} on, in "
            f"{duration(again_at - now)}. The daemon then makes and offers an image automatically. Until then, this "
            f"image is stored on this host, and nothing is lost."
        )
    if recent:
        return (
            "No action is needed: the image is stored on this host, and the daemon makes and offers the next image "
            "automatically."
        )
    return (
        "Nothing is lost: the image is stored on this host, and the daemon's next checkpoint makes a newer image. "
        "Check the NameNode's log if that image is refused too."
    )
