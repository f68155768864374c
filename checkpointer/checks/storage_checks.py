"""Checks of our storage directories: usable, of one VERSION, newest image whole, room for the next one."""

from __future__ import annotations

from checkpointer.checks.facts import DirectoryFacts, Facts
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import Metric, State, Verdict, worst
from checkpointer.errors import StorageError
from checkpointer.storage.inspector import StorageState, agree_on_version

__all__ = ["check_space", "check_storage"]


def check_storage(facts: Facts, thresholds: Thresholds) -> Verdict:
    """Every directory works, they agree, and the newest image is whole."""
    broken = [each for each in facts.directories if each.listing.error or not each.writable]
    new = [each for each in facts.directories if each not in broken and _is_new(each)]
    details = [_line(each) for each in facts.directories]
    if len(broken) == len(facts.directories):
        return Verdict(State.CRITICAL, "no storage directory can be used", tuple(details))
    states, problems = [State.OK], []
    if broken:
        states.append(State.WARNING)
        problems.append(f"{len(broken)} of {len(facts.directories)} directories cannot be used")
    if new and len(new) + len(broken) == len(facts.directories):
        states.append(State.WARNING)
        problems.append("no image yet")
        hint = "Start the daemon: its start, or its first checkpoint, brings an image."
        return Verdict(worst(states), "; ".join(problems), tuple(details), hint=hint)
    if new:
        states.append(State.WARNING)
        problems.append(f"{len(new)} directories have no image yet")
    for state, problem in (_agreement(facts), _image(facts, details)):
        states.append(state)
        problems += [problem] if problem else []
    image = facts.image.value
    metrics = () if image is None else (Metric("image", image.size, "B"),)
    whole = "" if image is None else f"image at txid {image.txid} is whole"
    return Verdict(worst(states), "; ".join(problems) or whole, tuple(details), metrics)


def _is_new(each: DirectoryFacts) -> bool:
    listing = each.listing.value
    return listing is not None and listing.state in (StorageState.MISSING, StorageState.NOT_FORMATTED)


def _line(each: DirectoryFacts) -> str:
    if each.listing.value is None:
        return f"{each.root}: {each.listing.error}"
    access = "" if each.writable else ", not writable"
    held = f", in use by {each.holder}" if each.holder else ", not in use"
    return f"{each.root}: {each.listing.value.state.value}{access}{held}"


def _agreement(facts: Facts) -> tuple[State, str]:
    listings = [each.listing.value for each in facts.directories if each.listing.value is not None]
    half = [each for each in listings if each.state is StorageState.HALF_FORMATTED]
    if half:
        return State.CRITICAL, f"{half[0].root} is half-formatted: VERSION or image is missing"
    try:
        agree_on_version(listings)
    except StorageError as fault:
        return State.CRITICAL, fault.message
    return State.OK, ""


def _image(facts: Facts, details: list[str]) -> tuple[State, str]:
    image = facts.image.value
    if image is None:
        return State.UNKNOWN, f"the newest image could not be looked at: {facts.image.error}"
    damaged = [(path, answer.error) for path, answer in image.copies if answer.error]
    details += [f"{path}: {error}" for path, error in damaged]
    details += [f"{path}: MD5 {answer.value}" for path, answer in image.copies if answer.value]
    if len(damaged) == len(image.copies):
        return State.CRITICAL, f"no copy of the image at txid {image.txid} is whole"
    if image.deep.error:
        return State.UNKNOWN, f"its records could not be checked: {image.deep.error}"
    if image.deep.value:
        return State.CRITICAL, f"the image at txid {image.txid} has {image.deep.value} errors in its records"
    if damaged:
        return State.WARNING, f"{len(damaged)} of {len(image.copies)} copies of the newest image are damaged"
    return State.OK, ""


def check_space(facts: Facts, thresholds: Thresholds) -> Verdict:
    """Room for two images like the newest beside `dfs.namenode.resource.du.reserved` on every disk."""
    size = 0 if facts.image.value is None else facts.image.value.size
    need = 2 * size + facts.reserved
    limits = thresholds.limits("space", 2 * need, need)
    free = [(each.root, each.free.value) for each in facts.directories if each.free.value is not None]
    errors = tuple(f"{each.root}: {each.free.error}" for each in facts.directories if each.free.error)
    details = (*(f"{root}: {value} bytes free" for root, value in free), f"needed: {need} bytes", *errors)
    if not free:
        return Verdict(State.UNKNOWN, "the free space of no directory is known", details)
    root, least = min(free, key=lambda pair: pair[1])
    metric = Metric("space", least, "B", limits.warning, limits.critical, below=True)
    state = worst([metric.state(), State.WARNING if errors else State.OK])
    summary = f"{_gigabytes(least)} free on {root}, {_gigabytes(need)} needed"
    return Verdict(state, summary, details, (metric,))


def _gigabytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
