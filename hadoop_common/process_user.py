"""The user of this process."""

from __future__ import annotations

import os
import pwd


def process_user() -> str:
    """Return the name of this process's user, or the user's number if there is no name.

    The user may lack a name in a container, or while the host's directory service is unavailable.
    """
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
