"""The user of this process."""

from __future__ import annotations

import os
import pwd


def process_user() -> str:
    """Return the name of this process's user; the number of a user without a name.

    A container may run with such a number, and a host may lose its directory service.
    """
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
