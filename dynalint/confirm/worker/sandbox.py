"""The walls around user code: what it may write, reach and use up. Standard library only.

`enclose` is called in the process that will import user code, before it does, and cannot be undone. Several layers do
the same work, since no system has all of them:

- namespaces (set up by the supervisor, see `supervisor`): no network, no sight of other processes, every mount
  read-only but for a file system in memory on the scratch folder and on /dev/shm;
- Landlock: writes only below the scratch folder, /dev/shm and a few devices, no TCP, no signals to outsiders;
- seccomp: no sockets of any kind, no io_uring, and no signals to outsiders where nothing else stops them;
- resource limits: memory, processor time, size of a file, no core dumps.

`enclose` then tries to get out. Only what it tried and failed at counts as held.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import syscalls

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_CAP_DAC_READ_SEARCH = 1 << 2
MOST_PROCESSES = 128
_FILE_SIZE = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What one target may use: wall-clock seconds, bytes of memory, seconds of processor time over all threads."""

    seconds: float
    memory: int
    cpu_seconds: int


@dataclass(frozen=True)
class Enclosure:
    """What holds. `escape` is None, or the first thing that user code could still do, in words for the user."""

    layers: tuple[str, ...]
    escape: str | None


def usable_namespaces(folder: Path) -> int:
    """Return the flags of `unshare` that work here, 0 if none do; `folder` is any folder of our own.

    Tried in a process that is thrown away, for half a success cannot be undone. With a user namespace, which needs no
    privilege where the system allows any; else, for root, without.
    """
    apart = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET
    for flags in (apart | syscalls.CLONE_NEWUSER, apart):
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(OSError):
                syscalls.unshare(flags)
                _shield_mounts([folder], 1 << 20)
                status = 0
            os._exit(status)
        if os.waitpid(child, 0)[1] == 0:
            return flags
    return 0


def enclose(scratch: Path, outside: Path, limits: Limits, *, namespaces: bool, device: str) -> Enclosure:
    """Shut this process in and try the walls.

    `outside` is a folder beside the scratch folder with a file named `witness` in it: what must not be writable is
    tried there. `namespaces` tells that the supervisor has put this process into namespaces of its own.
    """
    held = []
    if namespaces:
        _shield_mounts([scratch, SHARED_MEMORY], max(limits.memory // 2, 1 << 26))
        _show_processes(device)
        held.append("namespaces")
    _limit_resources(limits, device, own_users=namespaces)
    with contextlib.suppress(OSError):
        syscalls.drop_capabilities(keep=_CAP_DAC_READ_SEARCH)
    version = 0
    with contextlib.suppress(OSError):
        version = syscalls.landlock(_writable(scratch, device))
        held.append(f"Landlock {version}")
    with contextlib.suppress(OSError):
        # Namespaces hide other processes; Landlock keeps signals in from version 6 on.
        syscalls.seccomp(only_own_signals=not namespaces and version < 6, local_sockets=device != "cpu")
        held.append("seccomp")
    return Enclosure(tuple(held), _way_out(scratch, outside))


def _shield_mounts(folders: list[Path], size: int) -> None:
    syscalls.mounts_read_only()
    for folder in folders:
        if folder.is_dir():
            syscalls.mount_memory(folder, size)


def _show_processes(device: str) -> None:
    """Put a /proc of this namespace in place; some containers do not let it be mounted.

    The driver of a GPU names its threads there. Where it may be written, Landlock keeps all but that from being so.
    """
    writable = False
    if device != "cpu":
        with contextlib.suppress(OSError):
            writable = syscalls.landlock_version() > 0
    with contextlib.suppress(OSError):
        # Apart from the supervisor, which counts processes by the /proc of all.
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount_processes(writable=writable)


def set_environment(scratch: Path) -> None:
    """Point everything that programs write on their own account to the scratch folder."""
    home, temporary = scratch / "home", scratch / "tmp"
    for folder in (home, temporary):
        folder.mkdir(exist_ok=True)
    os.environ.update(
        HOME=str(home),
        TMPDIR=str(temporary),
        XDG_CACHE_HOME=str(home / ".cache"),
        XDG_CONFIG_HOME=str(home / ".config"),
        TORCHINDUCTOR_CACHE_DIR=str(scratch / "inductor"),
        TRITON_CACHE_DIR=str(scratch / "triton"),
        PYTHONDONTWRITEBYTECODE="1",
    )
    sys.dont_write_bytecode = True
    tempfile.tempdir = None


def _writable(scratch: Path, device: str) -> Iterator[Path]:
    yield scratch
    yield from (path for path in (SHARED_MEMORY, *map(Path, _DEVICES)) if path.exists())
    if device != "cpu":
        yield from Path("/dev").glob("nvidia*")
        yield Path("/proc/self")


def _limit_resources(limits: Limits, device: str, *, own_users: bool) -> None:
    if device == "cpu":
        # Counts private memory only, on top of what torch has mapped already; a GPU driver reserves far more than
        # it uses, so there the supervisor's watch over resident memory must do.
        _lower(resource.RLIMIT_DATA, _data_size() + limits.memory)
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds)
    _lower(resource.RLIMIT_FSIZE, min(_FILE_SIZE, limits.memory))
    _lower(resource.RLIMIT_CORE, 0)
    if own_users:
        # Counted by user: only in a user namespace of our own is that count this target's alone. Root is exempt from
        # it, which is why the supervisor counts too.
        _lower(resource.RLIMIT_NPROC, MOST_PROCESSES)


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))


def _data_size() -> int:
    """Return the bytes that RLIMIT_DATA counts now, 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def _way_out(scratch: Path, outside: Path) -> str | None:
    """Try to write outside and to reach a network; return the first thing that worked, None if nothing did."""
    witness = outside / "witness"
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("make files outside the scratch folder", lambda: (outside / "made").write_bytes(b"")),
        ("change files outside the scratch folder", lambda: witness.open("r+b").close()),
        ("empty files outside the scratch folder", lambda: os.truncate(witness, 0)),
        ("delete files outside the scratch folder", witness.unlink),
        ("open a TCP connection", lambda: _connect(socket.SOCK_STREAM)),
        ("send over UDP", lambda: _connect(socket.SOCK_DGRAM)),
    ]
    for what, attempt in attempts:
        try:
            attempt()
        except OSError as error:
            # Refused by a peer is still reached; a missing witness proves nothing.
            if error.errno not in (errno.ECONNREFUSED, errno.ENOENT):
                continue
        return what
    try:
        (scratch / "probe").write_bytes(b"x")
        (scratch / "probe").unlink()
    except OSError as error:
        return f"not even write to the scratch folder ({error.strerror})"
    return None


def _connect(kind: int) -> None:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.settimeout(1)
        # The discard port of this very machine: nothing leaves it even where no wall stands.
        probe.connect(("127.0.0.1", 9))
        probe.send(b"")
