"""The few Linux system calls that the sandbox needs and that Python does not offer. Standard library only.

Every function raises OSError with the kernel's errno, and OSError(ENOSYS) where the system is not Linux.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 0x1, 0x2, 0x4, 0x8, 0x4000, 0x40000
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 0x1

# One step of a filter: code, jump if true, jump if false, operand. A jump counts the steps to skip, or names an end.
_Step = tuple[int, int, int, int]
_ALLOW, _REFUSE = -1, -2
_EPERM = 0x0005_0000 | errno.EPERM

# Numbers from 424 on are the same on every architecture.
_LANDLOCK_CREATE, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT = 444, 445, 446
_MOUNT_SETATTR = 442
_IO_URING_SETUP = 425


@dataclass(frozen=True)
class _Numbers:
    """An architecture in the terms of the audit system, and the numbers of its system calls."""

    audit: int
    socket: int
    kill: int
    capset: int
    connecting: tuple[int, ...]  # connect, sendto, sendmsg, sendmmsg


_ARCHITECTURES = {
    "x86_64": _Numbers(0xC000_003E, 41, 62, 126, (42, 44, 46, 307)),
    "aarch64": _Numbers(0xC000_00B7, 198, 129, 91, (203, 206, 211, 269)),
}


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
    """Have the kernel send this process a signal when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Let no program that is executed from now on gain rights; Landlock and seccomp ask for this."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities(keep: int = 0) -> None:
    """Give up all capabilities except those in the bit mask `keep`."""
    keep_low, keep_high = keep & 0xFFFF_FFFF, keep >> 32
    header = struct.pack("=Ii", 0x2008_0522, 0)
    data = struct.pack("=6I", keep_low, keep_low, 0, keep_high, keep_high, 0)
    _syscall(_architecture().capset, ctypes.c_char_p(header), ctypes.c_char_p(data))


def _architecture() -> _Numbers:
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system call numbers known for {machine}")
    return _ARCHITECTURES[machine]


def unshare(flags: int) -> None:
    """Move this process, which must have one thread, to namespaces of its own; a user namespace keeps its ids.

    Root maps all ids, so that it still owns what it owned; anybody else may map only their own.
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
    """Make every mount of this mount namespace read-only, devices excepted, without telling other namespaces."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
    attributes = struct.pack("=4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    _syscall(_MOUNT_SETATTR, _AT_FDCWD, ctypes.c_char_p(b"/"), _AT_RECURSIVE, ctypes.c_char_p(attributes), 32)


def mount_memory(target: Path, size: int) -> None:
    """Put an empty file system of at most `size` bytes of memory on the folder `target`."""
    _mount("tmpfs", str(target), "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={size},mode=1777")


def mount_processes(*, writable: bool) -> None:
    """Have /proc show the processes of this process's own namespace."""
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | (0 if writable else _MS_RDONLY)
    _mount("proc", "/proc", "proc", flags, None)


def landlock_version() -> int:
    """Return the version of Landlock's interface; raises OSError where the kernel has none."""
    return _syscall(_LANDLOCK_CREATE, ctypes.c_void_p(None), 0, 1)


def landlock(writable: Iterable[Path]) -> int:
    """Forbid writing below any path but `writable`, TCP, and signals to outsiders, as far as this kernel can.

    Returns the interface version. Reading and executing stay free.
    """
    version = landlock_version()
    write_file, truncate = 1 << 1, 1 << 14
    handled = write_file | sum(1 << bit for bit in range(4, 13))
    handled |= 1 << 13 if version >= 2 else 0
    handled |= truncate if version >= 3 else 0
    network = 0b11 if version >= 4 else 0
    scopes = 0b11 if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("=3Q", handled, network, scopes)[:size]
    ruleset = _syscall(_LANDLOCK_CREATE, ctypes.c_char_p(attributes), size, 0)
    try:
        for path in writable:
            allowed = handled if path.is_dir() else handled & (write_file | truncate)
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = struct.pack("=Qi", allowed, descriptor)
                _syscall(_LANDLOCK_ADD_RULE, ruleset, 1, ctypes.c_char_p(rule), 0)
            finally:
                os.close(descriptor)
        forbid_new_privileges()
        _syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def seccomp(*, only_own_signals: bool, local_sockets: bool) -> None:
    """Have `socket` and `io_uring_setup` fail with EPERM, and `kill` too where it aims at another process.

    Landlock says nothing about UDP and Unix sockets; this closes them. `socketpair` and pipes stay. With
    `local_sockets` Unix sockets can be made, which the driver of a GPU insists on, and reach nobody.
    """
    numbers = _architecture()
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    program: list[_Step] = [
        (load, 0, 0, 4),
        (equal, 0, _REFUSE, numbers.audit),
        (load, 0, 0, 0),
        # 32-bit pointers on a 64-bit kernel: the same calls under other numbers.
        (at_least, _REFUSE, 0, 0x4000_0000),
        (equal, _REFUSE, 0, _IO_URING_SETUP),
    ]
    if only_own_signals:
        own = (equal, _ALLOW, 0, os.getpid())
        program += [(equal, 0, 4, numbers.kill), (load, 0, 0, 16), (equal, _ALLOW, 0, 0), own, (give, 0, 0, _EPERM)]
    if local_sockets:
        program += [(equal, _REFUSE, 0, number) for number in numbers.connecting]
        program += [(equal, 0, 2, numbers.socket), (load, 0, 0, 16), (equal, _ALLOW, _REFUSE, socket.AF_UNIX)]
    else:
        program.append((equal, _REFUSE, 0, numbers.socket))
    program += [(give, 0, 0, 0x7FFF_0000), (give, 0, 0, _EPERM)]
    ends = {_ALLOW: len(program) - 2, _REFUSE: len(program) - 1}
    code = b"".join(
        struct.pack("=HBBI", op, *(ends[jump] - at - 1 if jump in ends else jump for jump in (true, false)), operand)
        for at, (op, true, false, operand) in enumerate(program)
    )
    buffer = ctypes.create_string_buffer(code)
    filter_program = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    forbid_new_privileges()
    _prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(filter_program))
