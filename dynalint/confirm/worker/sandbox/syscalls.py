"""The Linux system calls that the sandbox needs and that Python does not provide. Uses only the standard library.

Every function raises OSError with the kernel's errno, or OSError(ENOSYS) if the system is not Linux.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 0x1, 0x2, 0x4, 0x8, 0x4000, 0x40000
_MS_REMOUNT, _MS_BIND = 0x20, 0x1000
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 0x1

# Numbers from 424 on are the same on every architecture.
_LANDLOCK_CREATE, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT = 444, 445, 446
_MOUNT_SETATTR = 442


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "not Linux")
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _syscall(number: int, *arguments: object) -> int:
    wide = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    return _check(_libc().syscall(ctypes.c_long(number), *wide), f"system call {number}")


def _prctl(option: int, *arguments: object) -> None:
    wide = [ctypes.c_ulong(item) if isinstance(item, int) else item for item in arguments]
    wide += [ctypes.c_ulong(0)] * (4 - len(wide))
    _check(_libc().prctl(ctypes.c_int(option), *wide), f"prctl {option}")


def die_with_parent(signal_number: int) -> None:
    """Make the kernel send this process a signal when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Prevent programs from gaining privileges when they are executed. Landlock and seccomp require this."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities(keep: int = 0) -> None:
    """Give up all capabilities except those in the bit mask `keep`."""
    keep_low, keep_high = keep & 0xFFFF_FFFF, keep >> 32
    header = struct.pack("=Ii", 0x2008_0522, 0)
    data = struct.pack("=6I", keep_low, keep_low, 0, keep_high, keep_high, 0)
    _check(_libc().capset(ctypes.c_char_p(header), ctypes.c_char_p(data)), "capset")


def unshare(flags: int) -> None:
    """Move this process to new namespaces. It must have only one thread. A user namespace keeps the user's ids.

    Root maps all ids, so that it keeps access to its files. Other users may only map their own id.
    """
    uid, gid = os.getuid(), os.getgid()
    _check(_libc().unshare(ctypes.c_int(flags)), "unshare")
    if not flags & CLONE_NEWUSER:
        return
    own = Path("/proc/self")
    if uid == 0:
        try:
            (own / "uid_map").write_text("0 0 4294967295\n")
            (own / "gid_map").write_text("0 0 4294967295\n")
            return
        except OSError:
            pass
    (own / "setgroups").write_text("deny\n")
    (own / "uid_map").write_text(f"{uid} {uid} 1\n")
    (own / "gid_map").write_text(f"{gid} {gid} 1\n")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    result = _libc().mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _check(result, f"mount {target}")


def mounts_read_only() -> None:
    """Make every mount in this mount namespace read-only, except devices, without affecting other namespaces."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
    attributes = struct.pack("=4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    _syscall(_MOUNT_SETATTR, _AT_FDCWD, ctypes.c_char_p(b"/"), _AT_RECURSIVE, ctypes.c_char_p(attributes), 32)


def mount_memory(target: Path, size: int) -> None:
    """Mount an empty in-memory file system of at most `size` bytes on the folder `target`."""
    _mount("tmpfs", str(target), "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={size},mode=1777")


def mount_read_only(target: Path) -> None:
    """Make the mount on a folder read-only, but not the mounts below it."""
    _mount("none", str(target), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV, None)


def mount_again(source: Path, target: Path) -> None:
    """Bind a file or folder, with all mounts below it, to another location."""
    _mount(str(source), str(target), None, _MS_BIND | _MS_REC, None)


def mount_processes(*, writable: bool) -> None:
    """Make /proc show the processes in this process's own namespace."""
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | (0 if writable else _MS_RDONLY)
    _mount("proc", "/proc", "proc", flags, None)


def landlock_version() -> int:
    """Return Landlock's interface version. Raises OSError if the kernel does not have Landlock."""
    return _syscall(_LANDLOCK_CREATE, ctypes.c_void_p(None), 0, 1)


def landlock(readable: Iterable[Path], writable: Iterable[Path]) -> int:
    """Restrict file access as far as this kernel can: read and execute below `readable`, everything below `writable`.

    This also forbids TCP, signals to outside processes, and controlling devices that are not `writable`. Paths that do
    not exist are ignored. Returns the interface version.
    """
    version = landlock_version()
    execute, write_file, read_file, read_folder, truncate, control = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
    reading = execute | read_file | read_folder
    handled = reading | write_file | sum(1 << bit for bit in range(4, 13))
    handled |= 1 << 13 if version >= 2 else 0
    handled |= truncate if version >= 3 else 0
    handled |= control if version >= 5 else 0
    network = 0b11 if version >= 4 else 0
    scopes = 0b11 if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("=3Q", handled, network, scopes)[:size]
    ruleset = _syscall(_LANDLOCK_CREATE, ctypes.c_char_p(attributes), size, 0)
    of_files = handled & (execute | read_file | write_file | truncate | control)
    try:
        for allowed, paths in ((handled & reading, readable), (handled, writable)):
            for path in paths:
                _allow(ruleset, path, allowed, of_files)
        forbid_new_privileges()
        _syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: Path, allowed: int, of_files: int) -> None:
    """Add a rule for a path, with only the rights that apply to its kind of file."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed &= allowed if stat.S_ISDIR(os.fstat(descriptor).st_mode) else of_files
        rule = struct.pack("=Qi", allowed, descriptor)
        _syscall(_LANDLOCK_ADD_RULE, ruleset, 1, ctypes.c_char_p(rule), 0)
    finally:
        os.close(descriptor)


def seccomp(code: bytes) -> None:
    """Make the kernel filter the system calls of this process and its descendants. See `filters`."""
    buffer = ctypes.create_string_buffer(code)
    filter_program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    forbid_new_privileges()
    _prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(filter_program))
