"""The most memory that this process has held: since it began, or since the last time it was asked to forget.

What the system counts never falls by itself, so a training in the process that generated its rows would be told the
memory of the language model. Linux forgets the most when it is asked to; other systems do not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_FORGET_THE_MOST = "5"


def forget_peak_memory() -> bool:
    """Begin to count anew, from what is held now; False where the system cannot."""
    try:
        _CLEAR.write_text(_FORGET_THE_MOST)
    except OSError:
        return False
    return _high_water_mark() is not None


def peak_memory() -> int:
    """Most bytes held in RAM since the process began or was last asked to forget; 0 where the system does not tell."""
    mark = _high_water_mark()
    if mark is not None:
        return mark
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _high_water_mark() -> int | None:
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
