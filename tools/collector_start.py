"""The start of the collector's file: unpacks it once, and runs it. Any Python 3 reads this, to say which one is needed."""

import json
import os
import shutil
import stat
import sys
import sysconfig
import tempfile
import zipfile

FILE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - strings, as old Pythons have them
USAGE = 2


def refuse(reason):
    """End with one sentence."""
    sys.stderr.write("error: %s\n" % reason)  # noqa: UP031 - older than f-strings
    sys.exit(USAGE)


def is_safe(parent, kept):
    """Whether nobody but this user, or root, can have put code there, or can exchange it."""
    if os.path.isdir(parent):  # noqa: PTH112
        mode = os.stat(parent).st_mode  # noqa: PTH116
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return False
    if not os.path.lexists(kept):
        return True
    found = os.lstat(kept)
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def unpacked(archive, digest):
    """The folder of the unpacked files, and whether it has to be removed at the end.

    It is kept in the user's cache, or in the folder that REPLICA_AUDIT_UNPACKED names; where that cannot be written, or others might have
    put their own code, in a temporary folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118
    parent = os.environ.get("REPLICA_AUDIT_UNPACKED") or os.path.join(cache, "replica-audit")  # noqa: PTH118
    kept = os.path.join(parent, "collect-" + digest)  # noqa: PTH118
    is_kept = is_safe(parent, kept)
    if is_kept and os.path.isdir(kept):  # noqa: PTH112
        return kept, False
    for folder in (parent, None) if is_kept else (None,):
        made = None
        try:
            if folder:
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            made = tempfile.mkdtemp(prefix="unpacking-", dir=folder)
            archive.extractall(made, [name for name in archive.namelist() if name.startswith("site/")])
            if not folder:
                return made, True
            os.rename(made, kept)  # noqa: PTH104
            return kept, False
        except OSError as error:
            if made:
                shutil.rmtree(made, ignore_errors=True)
            if is_kept and is_safe(parent, kept) and os.path.isdir(kept):  # noqa: PTH112 - another start has made it meanwhile
                return kept, False
            reason = error
    refuse("the files to run cannot be unpacked: %s; set REPLICA_AUDIT_UNPACKED to a folder with 200 MB of room" % reason)  # noqa: UP031


def main():
    """Run the collector; the process ends with its exit code."""
    with zipfile.ZipFile(FILE) as archive:
        made_for = json.loads(archive.read("made-for.json").decode())
        here = sysconfig.get_config_var("SOABI") or "unknown"
        if here != made_for["abi"]:
            needed = "Python %s (%s)" % (made_for["python"], made_for["abi"])  # noqa: UP031
            found = "Python %d.%d (%s)" % (sys.version_info[0], sys.version_info[1], here)  # noqa: UP031
            remedy = "build one with this Python" if sys.version_info >= (3, 11) else "collect needs Python 3.11 or newer"
            refuse("this file is made for %s, and this is %s; %s" % (needed, found, remedy))  # noqa: UP031
        folder, is_temporary = unpacked(archive, made_for["digest"])
    sys.path.insert(0, os.path.join(folder, "site"))  # noqa: PTH118
    code = 70  # a defect, unless it is known better
    try:
        try:
            from replica_audit.collector import main as collect
        except ImportError as error:
            refuse("what this file needs cannot be loaded on this machine: %s" % error)  # noqa: UP031
        code = collect()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    finally:
        if is_temporary:
            shutil.rmtree(folder, ignore_errors=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # threads of Arrow's may be at work, and abort a process whose interpreter is taken down


main()
