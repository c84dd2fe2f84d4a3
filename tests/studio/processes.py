"""Whether a process is still there, for the tests of what is left when a server ends."""

from __future__ import annotations

import time
from pathlib import Path


def gone(process_id: int, seconds: float) -> bool:
    """Whether the process ends by itself within that time; one that only waits to be collected has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False
