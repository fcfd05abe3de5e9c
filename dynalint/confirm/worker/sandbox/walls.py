"""The sandbox for user code: limits on writes, reads, network and resources. Uses only the standard library.

`enclose` is called in the process that will import user code, before the import, and cannot be undone. The layers
overlap, because no system supports all of them:

- Namespaces are set up by the supervisor (see `supervisor`). There is no network, other processes are not visible, and
  every mount is read-only except in-memory file systems on the scratch folder and /dev/shm.
- Landlock allows reading only the paths from `readable`, and writing only below the scratch folder and to a few devices
  (and to /dev/shm if it is private). It forbids TCP and signals to outside processes. Without Landlock, `views` hides
  paths that must not be read.
- seccomp forbids sockets and anything that outlives the process (see `filters`).
- Resource limits restrict memory, processor time and file size, and disable core dumps.

`enclose` then attempts to escape. The sandbox only counts as working if every attempt fails.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import filters, syscalls
from .readable import ReadableFolders, devices, readable
from .views import show_only

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
_CAP_DAC_READ_SEARCH = 1 << 2
MOST_PROCESSES = 128
_WITNESS, _SOCKET = "witness", "socket"
_FILE_SIZE = 1 << 30


@dataclass(frozen=True)
class Limits:
    """The limits for a target: wall-clock seconds, bytes of memory, and seconds of processor time over all threads.

    If `idle` is given, it is the number of seconds that the target may do nothing.
    """

    seconds: float
    memory: int
    cpu_seconds: int
    idle: float | None = None


@dataclass(frozen=True)
class Enclosure:
    """The active layers. `escape` is None, or describes the first attempt to escape that succeeded."""

    layers: tuple[str, ...]
    escape: str | None


def usable_namespaces(folder: Path) -> int:
    """Return the flags for `unshare` that work here, or 0 if none do.

    `folder` can be any folder that this process owns. The flags are tried in a temporary process, because partial
    success cannot be undone. A user namespace needs no privileges if the system allows it. Without a user namespace,
    only root succeeds.
    """
    apart = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC
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


def enclose(
    scratch: Path, outside: Path, limits: Limits, reading: ReadableFolders, *, namespaces: bool, device: str
) -> Enclosure:
    """Enter the sandbox, and try to escape.

    `outside` is a folder next to the scratch folder, created by `set_out`, where forbidden operations are tried.
    `namespaces` indicates whether the supervisor has created namespaces for this process.
    """
    held = []
    own_processes = False
    if namespaces:
        _shield_mounts([scratch, SHARED_MEMORY], max(limits.memory // 2, 1 << 26))
        own_processes = _show_processes(device)
        held.append("namespaces")
    open_for_reading = readable(reading, device, own_processes=own_processes)
    writable = list(_writable(scratch, device, namespaces=namespaces))
    _limit_resources(limits, device, own_users=namespaces)
    version, hidden = 0, False
    with contextlib.suppress(OSError):
        version = syscalls.landlock_version()
    if namespaces and not version:
        with contextlib.suppress(OSError):
            show_only(outside.with_name("view"), [*open_for_reading, *writable])
            hidden = True
    escape = _without_rights()
    with contextlib.suppress(OSError):
        held.append(f"Landlock {syscalls.landlock(open_for_reading, writable)}")
    with contextlib.suppress(OSError):
        # Namespaces hide other processes. Landlock restricts signals from version 6 on.
        machine, local = os.uname().machine, device != "cpu"
        program = filters.program(machine, apart=namespaces, own_signals=version < 6, local_sockets=local)
        syscalls.seccomp(program)
        held.append("seccomp")
    return Enclosure(tuple(held), escape or _way_out(scratch, outside, open_for_reading, hidden=hidden))


def _without_rights() -> str | None:
    """Give up administrator rights, including those in namespaces. If that fails, return how code could escape."""
    try:
        syscalls.drop_capabilities(keep=_CAP_DAC_READ_SEARCH)
    except (OSError, AttributeError):
        return "remove the sandbox with administrator rights"
    return None


def set_out(outside: Path) -> socket.socket | None:
    """Create the folder that the sandbox must not reach, with a file, `witness`, and a socket, `socket`.

    Returns the listening socket, or None if none can be created there. An empty folder, `view`, is created next to it
    for `enclose`.
    """
    outside.mkdir()
    outside.with_name("view").mkdir()
    (outside / _WITNESS).write_bytes(b"dynalint")
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:
        return None
    try:
        listener.bind(str(outside / _SOCKET))
    except OSError:  # The path may be too long.
        listener.close()
        return None
    return listener


def _shield_mounts(folders: list[Path], size: int) -> None:
    syscalls.mounts_read_only()
    for folder in folders:
        if folder.is_dir():
            syscalls.mount_memory(folder, size)


def _show_processes(device: str) -> bool:
    """Mount a /proc for this namespace. Return whether that succeeded, because some containers do not allow it.

    A GPU driver writes thread names there. If /proc is writable, Landlock forbids all other writes to it.
    """
    writable = False
    if device != "cpu":
        with contextlib.suppress(OSError):
            writable = syscalls.landlock_version() > 0
    with contextlib.suppress(OSError):
        # This needs a different mount namespace than the supervisor's, which counts processes in the full /proc.
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount_processes(writable=writable)
        return True
    return False


def set_environment(scratch: Path) -> None:
    """Redirect the files that programs write automatically to the scratch folder."""
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


def _writable(scratch: Path, device: str, *, namespaces: bool) -> Iterator[Path]:
    yield scratch
    yield from devices()
    if namespaces:
        yield SHARED_MEMORY
    if device != "cpu":
        yield from Path("/dev").glob("nvidia*")
        yield Path("/proc/self")


def _limit_resources(limits: Limits, device: str, *, own_users: bool) -> None:
    if device == "cpu":
        # This only counts private memory, in addition to what torch has already mapped. A GPU driver reserves far more
        # than it uses, so if there is a GPU, only the supervisor limits resident memory.
        _lower(resource.RLIMIT_DATA, _data_size() + limits.memory)
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds)
    _lower(resource.RLIMIT_FSIZE, min(_FILE_SIZE, limits.memory))
    _lower(resource.RLIMIT_CORE, 0)
    if own_users:
        # This is counted per user, so only a private user namespace counts this target alone. Root is exempt, so the
        # supervisor counts too.
        _lower(resource.RLIMIT_NPROC, MOST_PROCESSES)


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))


def _data_size() -> int:
    """Return the bytes that RLIMIT_DATA currently counts, or 0 if unknown."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def _way_out(scratch: Path, outside: Path, open_for_reading: Iterable[Path], *, hidden: bool) -> str | None:
    """Try to read, write and connect outside, and return the first success. `hidden` means nothing is visible."""
    witness, address = outside / _WITNESS, str(outside / _SOCKET)
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("create files outside the scratch folder", lambda: (outside / "made").write_bytes(b"")),
        ("change files outside the scratch folder", lambda: witness.open("r+b").close()),
        ("empty files outside the scratch folder", lambda: os.truncate(witness, 0)),
        ("change the mode of files outside the scratch folder", lambda: _change_mode(witness)),
        ("change the times of files outside the scratch folder", lambda: _change_times(witness)),
        ("mark files outside the scratch folder", lambda: os.setxattr(witness, "user.dynalint", b"x")),
        ("delete files outside the scratch folder", witness.unlink),
        ("open a TCP connection", lambda: _connect(socket.SOCK_STREAM)),
        ("send over UDP", lambda: _connect(socket.SOCK_DGRAM)),
    ]
    real = Path(os.path.realpath(outside))
    if not any(real.is_relative_to(os.path.realpath(path)) for path in open_for_reading):
        # If temporary files are created inside the project, they are readable anyway.
        attempts.insert(0, ("read files outside the project", witness.read_bytes))
    if hidden or os.path.lexists(address):
        attempts.append(("send to programs outside", lambda: _send_to(address)))
    for what, attempt in attempts:
        try:
            attempt()
        except OSError as error:
            # A refused connection still reached its peer. A missing witness proves nothing unless paths are hidden.
            if error.errno != errno.ECONNREFUSED and (hidden or error.errno != errno.ENOENT):
                continue
        return what
    try:
        (scratch / "probe").write_bytes(b"x")
        (scratch / "probe").unlink()
    except OSError as error:
        return f"not even write to the scratch folder ({error.strerror})"
    return None


def _change_mode(witness: Path) -> None:
    before = witness.stat().st_mode
    witness.chmod(before ^ 0o111)
    _raise_if(witness.stat().st_mode == before)


def _change_times(witness: Path) -> None:
    os.utime(witness, (1, 1))
    _raise_if(witness.stat().st_mtime != 1)


def _raise_if(unchanged: bool) -> None:
    """Raise if a call had no effect, because a filter may only pretend that it succeeded."""
    if unchanged:
        raise PermissionError(errno.EPERM, "nothing has changed")


def _send_to(address: str) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"", address)


def _connect(kind: int) -> None:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.settimeout(1)
        # This is the discard port on this machine. Nothing is sent elsewhere even without a sandbox.
        probe.connect(("127.0.0.1", 9))
        probe.send(b"")
