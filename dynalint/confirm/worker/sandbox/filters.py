"""The system calls that user code may not make, as a seccomp filter. Uses only the standard library.

The other layers control files, addresses and processes by name. A filter only sees numbers, and closes the remaining
gaps: calls that reach other processes, leave something behind in the kernel, or change file attributes.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Calls that computations do not need: name, number on x86_64, number on aarch64 ("-" if it has none).
_REFUSED = """
socket of another kind:        io_uring_setup 425 425
reads of other processes:      ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
                               pidfd_getfd 438 438, perf_event_open 298 241
watches over files:            inotify_init 253 -, inotify_init1 294 26, fanotify_init 300 262
what outlives a process:       shmget 29 194, shmat 30 196, semget 64 190, msgget 68 186, mq_open 240 180,
                               mq_unlink 241 181, add_key 248 217, request_key 249 218, keyctl 250 219
other views of the system:     mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, unshare 272 97,
                               setns 308 268, open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431,
                               fsmount 432 432, fspick 433 433, mount_setattr 442 442, open_tree_attr 467 467
files without their path:      name_to_handle_at 303 264, open_by_handle_at 304 265
the kernel itself:             bpf 321 280, userfaultfd 323 282, kexec_load 246 104, kexec_file_load 320 294,
                               init_module 175 105, finit_module 313 273, delete_module 176 106, syslog 103 116,
                               acct 163 89, iopl 172 -, ioperm 173 -, lookup_dcookie 212 18, vhangup 153 58
what belongs to the machine:   reboot 169 142, swapon 167 224, swapoff 168 225, quotactl 179 60, quotactl_fd 443 443,
                               sethostname 170 161, setdomainname 171 162, settimeofday 164 170, adjtimex 159 171,
                               clock_settime 227 112, clock_adjtime 305 266
attributes of files:           setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463,
                               removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, removexattrat 466 466,
                               file_setattr 469 469
"""
# Programs use these on their own files and would fail needlessly if they were refused, so they appear to succeed.
_PRETENDED = """
mode:   chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452
owner:  chown 92 -, lchown 94 -, fchown 93 55, fchownat 260 54
time:   utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88
"""
_LOOKED_AT = """
sockets:   socket 41 198, socketpair 53 199, connect 42 203, sendto 44 206, sendmsg 46 211, sendmmsg 307 269
signals:   kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
           pidfd_send_signal 424 424
others:    setpriority 141 140, sched_setparam 142 118, sched_setscheduler 144 119, sched_setaffinity 203 122,
           sched_setattr 314 274, ioprio_set 251 30, prlimit64 302 261
rest:      ioctl 16 29, fcntl 72 25, clone 56 220, clone3 435 435
"""
# The audit system's architecture numbers.
_AUDIT = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}

# These write terminal input, set who receives a descriptor's signals, or set the flags, versions and keys of files.
_REFUSED_IOCTLS = (0x5412, 0x541C, 0x541D, 0x5423, 0x8901, 0x8902)
_REFUSED_IOCTLS_ON_FILES = (0x4008_6602, 0x4004_6602, 0x401C_5820, 0x4008_7602, 0x800C_6613, 0x4080_6685)
# These set who receives a descriptor's signals, take leases on files, or request notifications about folders.
_REFUSED_FCNTLS = (8, 15, 1024, 1026)
# All kinds of namespaces. Inside a user namespace, a process has all capabilities, which exposes poorly tested parts of
# the kernel.
_NEW_NAMESPACES = 0x7E02_0000
# Datagram socket pairs can be connected to any other socket by its address, but pairs of these kinds cannot.
_PAIRS = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
_KINDS_OF_SOCKETS = 0xF

_LOAD, _AND, _EQUAL, _AT_LEAST, _GIVE = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ANSWER = 0x7FFF_0000, 0x0005_0000
_EPERM, _ENOSYS, _DONE = _ANSWER | errno.EPERM, _ANSWER | errno.ENOSYS, _ANSWER
# 32-bit pointers on a 64-bit kernel. The calls are the same but have different numbers.
_X32 = 0x4000_0000

# A step in a filter: code, steps to skip if true, steps to skip if false, operand.
_Step = tuple[int, int, int, int]


def numbers(table: str, machine: str) -> dict[str, int]:
    """Return the numbers of a table's calls on a machine, by name."""
    column = list(_AUDIT).index(machine)
    entries = (entry.split() for line in table.split("\n") for entry in line.rpartition(":")[2].split(","))
    return {name: int(found[column]) for name, *found in filter(None, entries) if found[column] != "-"}


@dataclass(frozen=True)
class _Look:
    """A call that is refused if an argument is one of `values` or, if `only` is true, none of them."""

    call: str
    argument: int
    values: tuple[int, ...]
    only: bool = True
    mask: int = 0xFFFF_FFFF

    def steps(self, number: int) -> list[_Step]:
        """Return the filter steps, which keep the call's number in the register if the call is allowed.

        The kernel also treats these arguments as 32 bits wide, so the upper half can be ignored.
        """
        values, refuse = [value & 0xFFFF_FFFF for value in self.values], (_GIVE, 0, 0, _EPERM)
        steps: list[_Step] = [(_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * self.argument), (_AND, 0, 0, self.mask)]
        if self.only:
            steps += [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
            steps.append(refuse)
        else:
            for value in values:
                steps += [(_EQUAL, 0, 1, value), refuse]
        steps.append((_LOAD, 0, 0, _NUMBER))
        return [(_EQUAL, 0, len(steps), number), *steps]


def _looks(*, apart: bool, own_signals: bool, local_sockets: bool) -> Iterator[_Look]:
    own = (0, os.getpid())
    yield _Look("socketpair", 1, _PAIRS, mask=_KINDS_OF_SOCKETS)
    yield _Look("clone", 0, (0,), mask=_NEW_NAMESPACES)
    yield _Look("ioctl", 1, (*_REFUSED_IOCTLS, *_REFUSED_IOCTLS_ON_FILES), only=False)
    yield _Look("fcntl", 1, _REFUSED_FCNTLS, only=False)
    if local_sockets:
        yield _Look("socket", 0, (socket.AF_UNIX,))
    if apart:
        return
    yield from (_Look(call, 0, own) for call in ("sched_setparam", "sched_setscheduler", "sched_setaffinity"))
    yield from (_Look(call, 0, own) for call in ("sched_setattr", "prlimit64"))
    # These are allowed for this process, by its id, but not for all of a user's processes.
    yield from (_Look("setpriority", 0, (0,)), _Look("setpriority", 1, own))
    yield from (_Look("ioprio_set", 0, (1,)), _Look("ioprio_set", 1, own))
    if own_signals:
        yield from (_Look(call, 0, own) for call in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"))


def program(machine: str, *, apart: bool, own_signals: bool, local_sockets: bool) -> bytes:
    """Return a filter in the kernel's format. Raises OSError(ENOSYS) if the machine's system call numbers are unknown.

    `apart` means that namespaces hide other processes and other users' files. `own_signals` restricts signals to this
    process. If `local_sockets` is true, Unix sockets can be created but not connected, because GPU drivers need to
    create them.
    """
    if machine not in _AUDIT:
        raise OSError(errno.ENOSYS, f"no system call numbers known for {machine}")
    looked_at = numbers(_LOOKED_AT, machine)
    refused = set(numbers(_REFUSED, machine).values())
    closed = ["connect", "sendto", "sendmsg", "sendmmsg"] if local_sockets else ["socket"]
    closed += ["tkill", "pidfd_send_signal"] if own_signals and not apart else []
    refused |= {looked_at[name] for name in closed}
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        (_GIVE, 0, 0, _EPERM),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_GIVE, 0, 0, _EPERM),
        # Its flags are in memory, which a filter cannot read. C libraries fall back to `clone`.
        *_answered([looked_at["clone3"]], _ENOSYS),
        *_answered(sorted(refused), _EPERM),
        *_answered([] if apart else sorted(numbers(_PRETENDED, machine).values()), _DONE),
    ]
    for look in _looks(apart=apart, own_signals=own_signals, local_sockets=local_sockets):
        steps += look.steps(looked_at[look.call])
    steps.append((_GIVE, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _answered(calls: Iterable[int], answer: int) -> Iterator[_Step]:
    for number in calls:
        yield (_EQUAL, 0, 1, number)
        yield (_GIVE, 0, 0, answer)
