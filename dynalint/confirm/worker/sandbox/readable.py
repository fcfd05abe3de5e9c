"""The files that user code may read: its interpreter, its project, its import path, and the system's programs.

Uses only the standard library. Called before any of the project's code runs. If a folder contains the user's home
folder or is shared by everybody, only the Python files and packages in it are readable, no matter how the folder was
named. A script in this kind of folder must not give access to everything else in it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store /run/current-system /run/opengl-driver"
_ADDED = "/opt/rocm /opt/intel /opt/nvidia /opt/homebrew /home/linuxbrew/.linuxbrew /etc/alternatives"
_KERNEL = "/sys/devices/system /sys/kernel/mm /proc/sys/vm /proc/sys/kernel"
# Files that every program opens: user and host names, name and library lookup, certificates. Never allow all of /etc,
# because on many machines it contains passwords that everybody can read.
_SETTINGS = (
    "ld.so.cache ld.so.conf ld.so.conf.d ld.so.preload localtime timezone passwd group nsswitch.conf hosts host.conf "
    "resolv.conf gai.conf protocols services os-release debian_version redhat-release lsb-release mime.types magic "
    "locale.alias default/locale ssl/openssl.cnf ssl/certs ssl/cert.pem pki/tls/openssl.cnf pki/tls/certs "
    "pki/tls/cert.pem pki/ca-trust ca-certificates crypto-policies fonts OpenCL vulkan"
)
_OF_ALL_PROCESSES = "cpuinfo meminfo stat loadavg uptime version filesystems"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SHARED = "/tmp /var /var/tmp /etc /home /root /run /dev /dev/shm /proc /sys /mnt /media /srv /opt /usr /Users /Volumes"  # noqa: S108
_PARTS_OF_A_PREFIX = ("bin", "lib", "lib64", "include", "share", "conda-meta", "pyvenv.cfg")
_COMPILERS = ("g++", "gcc", "c++", "clang++", "clang", "ld", "nvcc", "ptxas")
_FOLDERS = ("site-packages", "dist-packages")
# The files that a folder of a package or of its metadata has.
_IN_A_PACKAGE = ("__init__.py", "METADATA")
_PLACES_IN_ENVIRONMENT = ("CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True)
class ReadableFolders:
    """The folders that a request may read in addition to its interpreter. `homes` are never opened as a whole."""

    folders: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()


def readable(reading: ReadableFolders, device: str, *, own_processes: bool) -> list[Path]:
    """Return the files and folders that become readable.

    `own_processes` means that /proc only shows the processes that run user code.
    """
    homes = {os.path.realpath(home) for home in (*reading.homes, *_own_home())}
    found = [*_of_system(device, own_processes=own_processes)]
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)):
        found += _prefix(prefix, homes)
    for program in (sys.executable, os.path.realpath(sys.executable)):
        found += _narrowed(str(Path(program).parent), homes)
    for folder in (*_import_path(), *reading.folders, *_libraries()):
        found += _narrowed(folder, homes)
    for folder in _import_path():
        found += _linked(folder, homes)
    for place in filter(None, map(os.environ.get, _PLACES_IN_ENVIRONMENT)):
        found += _prefix(place, homes)
    for compiler in filter(None, map(shutil.which, _COMPILERS)):
        found += _prefix(str(Path(os.path.realpath(compiler)).parent.parent), homes)
    return list(dict.fromkeys(found))


def devices() -> list[Path]:
    """Return the devices that every program uses."""
    return [Path(name) for name in _DEVICES]


def _of_system(device: str, *, own_processes: bool) -> Iterator[Path]:
    yield from (Path(name) for names in (_SYSTEM, _ADDED, _KERNEL) for name in names.split())
    yield from (Path("/etc", name) for name in _SETTINGS.split())
    yield Path(__file__).parent.parent
    if own_processes:
        yield Path("/proc")
    else:
        yield from (Path("/proc", name) for name in _OF_ALL_PROCESSES.split())
        # These are the calling process's files. Its forks cannot read their own files.
        yield Path(os.path.realpath("/proc/self"))
    if device != "cpu":
        yield from map(Path, ("/sys", "/dev/dri", "/proc/driver", "/proc/devices"))


def _own_home() -> Iterator[str]:
    # HOME names a folder that was created for the worker.
    try:
        import pwd

        yield pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return


def _import_path() -> Iterator[str]:
    """Yield the entries of `sys.path`, and the folders that editable installs map names to."""
    yield from (entry for entry in sys.path if entry)
    for name, module in [*sys.modules.items()]:
        if name.startswith("__editable__"):
            for places in (getattr(module, "MAPPING", {}), getattr(module, "NAMESPACES", {})):
                for place in places.values() if isinstance(places, dict) else ():
                    yield from [place] if isinstance(place, str) else map(str, place)
    for finder in sys.meta_path:
        # The finder from scikit-build-core lists each file.
        files = getattr(finder, "known_source_files", None)
        yield from {str(Path(file).parent) for file in files.values()} if isinstance(files, dict) else ()


def _linked(folder: str, homes: Iterable[str]) -> Iterator[Path]:
    """Yield the packages to which an environment's folder has links. Some installers link each file, others folders.

    A link to anything but a package with the same name shows nothing.
    """
    prefixes = (sys.prefix, sys.base_prefix)
    if Path(folder).name not in _FOLDERS or not any(Path(folder).is_relative_to(one) for one in prefixes):
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            inside = (Path(entry.path, name) for name in _IN_A_PACKAGE)
            known = next((one for one in inside if one.is_file()), None)
            if known is not None:
                real = Path(os.path.realpath(known)).parent
            elif entry.name.endswith((".py", ".so")):
                real = Path(os.path.realpath(entry.path))
            else:
                continue
            if real.name == entry.name and str(real) != entry.path and not _holds_others(str(real), homes):
                yield real


def _libraries() -> Iterator[str]:
    return filter(os.path.isabs, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))


def _prefix(folder: str, homes: Iterable[str]) -> Iterator[Path]:
    """Yield the folders in an installation prefix."""
    if _holds_others(folder, homes):
        yield from (Path(folder, part) for part in _PARTS_OF_A_PREFIX)
    else:
        yield Path(folder)


def _narrowed(folder: str, homes: Iterable[str]) -> Iterator[Path]:
    """Yield a folder, or only its Python files and packages if it is shared."""
    if not _holds_others(folder, homes):
        yield Path(folder)
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # Links may point anywhere.
                is_package = entry.is_dir(follow_symlinks=False) and Path(entry.path, "__init__.py").is_file()
                if is_package or (entry.name.endswith(".py") and entry.is_file(follow_symlinks=False)):
                    yield Path(entry.path)
    except OSError:
        return


def _holds_others(folder: str, homes: Iterable[str]) -> bool:
    real = os.path.realpath(folder)
    return real == os.sep or real in _SHARED.split() or any(Path(home).is_relative_to(real) for home in homes)
