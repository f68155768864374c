"""`python -m tests.browser`: install a headless Chromium, which the tests of the report page need."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.apt import apt_command, apt_install
from tests.required import required, skip

PATIENCE = 280_000
"""Limit in milliseconds for the browser's start, and for steps such as a click, which take 1 ms on an idle machine."""
expect.set_options(timeout=PATIENCE)
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_PACKAGE = "chromium"


class MissingBrowserError(Exception):
    """The lack of a usable browser; the message gives the reason in one sentence."""


def installed() -> Path:
    """Return the Chromium or Chrome on the search path.

    Raises:
        MissingBrowserError: Chromium is missing.
    """
    for name in _PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise MissingBrowserError("Chromium is not installed; run `make interop-setup`")


@contextmanager
def browser() -> Iterator[Browser]:
    """Run a headless Chromium; for root, without the sandbox, which root cannot use.

    Raises:
        MissingBrowserError: Chromium is missing.
    """
    program = installed()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=_sandbox(), timeout=PATIENCE)
        try:
            yield running
        finally:
            running.close()


@contextmanager
def profile(folder: Path, *switches: str, **options: Any) -> Iterator[BrowserContext]:
    """Run a headless Chromium with a profile in `folder`, as for a real user; the browser logs in if `switches` allow
    it.

    Raises:
        MissingBrowserError: Chromium is missing.
    """
    program = installed()
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder, executable_path=program, args=[*_sandbox(), *switches], timeout=PATIENCE, **options
        )
        context.set_default_timeout(PATIENCE)
        try:
            yield context
        finally:
            context.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser; without a browser, skip tests, or fail them if the browser is required."""
    try:
        with browser() as running:
            yield running
    except MissingBrowserError as error:
        skip("browser", str(error))


def _sandbox() -> list[str]:
    return ["--no-sandbox"] if os.geteuid() == 0 else []


def main() -> int:
    """Return 1 if a required browser is missing and cannot be installed, else 0."""
    try:
        print(f"browser: ready, {_ensure()}")
    except MissingBrowserError as error:
        print(f"browser: {error}", file=sys.stderr)
        if required("browser"):
            return 1
        print("browser: the tests of the report page in a browser will be skipped", file=sys.stderr)
    return 0


def _ensure() -> Path:
    """Install a missing Chromium with apt, if apt exists and does not prompt."""
    try:
        return installed()
    except MissingBrowserError:
        apt = apt_command()
        if apt is None:
            raise MissingBrowserError(
                f"Chromium is not installed and apt may not be used here; install Debian's package {_PACKAGE}"
            ) from None
    print(f"browser: no Chromium here, installing {_PACKAGE} with apt", flush=True)
    apt_install(apt, _PACKAGE)
    return installed()


if __name__ == "__main__":
    sys.exit(main())
