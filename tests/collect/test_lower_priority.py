"""What a collection leaves to the broker: it comes last for the processors and for the disk."""

from __future__ import annotations

import subprocess
import sys

import psutil

_ASKED = """
import psutil
from replica_audit.collect.pace import lower_priority
lower_priority()
lower_priority()
this = psutil.Process()
print(this.nice(), *this.ionice())
"""


def test_it_has_the_lowest_priority_that_still_gets_a_turn() -> None:
    told = subprocess.run([sys.executable, "-c", _ASKED], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["19", str(int(psutil.IOPRIO_CLASS_BE)), "7"]
