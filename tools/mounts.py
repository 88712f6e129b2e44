"""What a jailed process may see, and the private root that shows only that."""

import functools
import os
import site
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from musaagent.tools.syscalls import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    mount,
    pivot_root,
    set_mount_flags,
    unmount,
)

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_EXTRA = ("/opt", "/nix/store", "/gnu/store", "/run/opengl-driver")
# What the loader, compilers, time zones and user names need of /etc; it holds keys as well.
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "localtime"),
    *("passwd", "group", "nsswitch.conf", "hosts", "OpenCL", "vulkan"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_STAGE = "/tmp"
_OLD = "/.old-root"


@dataclass(frozen=True)
class View:
    """Absolute paths; the private /tmp and /dev/shm are always there."""

    read_only: tuple[str, ...]
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    devices: tuple[str, ...] = DEVICES
    tmp_mb: int = 256


def visible_paths(extra: Iterable[str] = ()) -> tuple[str, ...]:
    """What every jail may read: the system, this Python with its packages, and `extra`."""
    return tuple(dict.fromkeys((*_always_visible(), *(_absolute(p) for p in extra if p))))


@functools.cache
def _always_visible() -> tuple[str, ...]:
    system = (*_SYSTEM, *_SYSTEM_EXTRA, *(f"/etc/{name}" for name in _ETC))
    paths = [p for p in system if Path(p).exists()]
    paths += [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    paths += [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    paths += [str(Path(__file__).parent), *_packages_elsewhere()]
    return tuple(dict.fromkeys(_absolute(p) for p in paths))


def _absolute(path: str) -> str:
    return os.path.normpath(Path(path).absolute())


def _packages_elsewhere() -> list[str]:
    """Imported packages that lie outside the usual folders, as a develop install does."""
    usual = (sys.prefix, sys.base_prefix, *site.getsitepackages())
    places = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__path__", None)
        if "." not in name and isinstance(path, list) and path:
            places += [str(p) for p in path if not str(p).startswith(usual)]
    return places


def build_root(view: View, owner: tuple[int, int]) -> None:
    """Make the view this process's root; needs CAP_SYS_ADMIN over a fresh mount namespace.

    `owner` (uid, gid) gets the private /tmp. /proc is that of the caller's pid namespace; where
    the outer one is masked (in Docker), the kernel allows none, and it stays empty.
    """
    sources = _resolve(view)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", _STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=755")
    Path(_STAGE + _OLD).mkdir()
    pivot_root(_STAGE, _STAGE + _OLD)
    os.chdir("/")
    _private_folders(view.tmp_mb, owner)
    bound: dict[str, bool] = {}
    for source, target, read_only in sources:
        if not (read_only and _is_covered(source, target, bound)):
            _bind(source, target, MS_NOSUID | MS_NODEV | (MS_RDONLY if read_only else 0))
            bound[target] = read_only
    for device in view.devices:
        if Path(_OLD + device).exists():
            _bind(device, device, MS_NOSUID | MS_NOEXEC)
    for path in view.hidden:
        _hide(path)
    for name in ("proc", "sys", "var"):
        Path("/" + name).mkdir(exist_ok=True)
    if not Path("/var/tmp").exists():
        Path("/var/tmp").symlink_to("/tmp")
    with suppress(PermissionError):
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    unmount(_OLD)
    Path(_OLD).rmdir()
    mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _private_folders(tmp_mb: int, owner: tuple[int, int]) -> None:
    size = f"size={tmp_mb}m,nr_inodes=65536,mode=1777,uid={owner[0]},gid={owner[1]}"
    for path in ("/tmp", "/dev/shm"):
        Path(path).mkdir(parents=True)
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, size)
    for name, link in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        Path("/dev", name).symlink_to("/proc/self/fd" + link)


def _resolve(view: View) -> list[tuple[str, str, bool]]:
    """(real source, target, read-only), shallow targets first; done before the root changes."""
    wanted = {_absolute(p): True for p in view.read_only}
    wanted |= {_absolute(p): False for p in view.writable}
    plan: dict[str, tuple[str, bool]] = {}
    for path, read_only in wanted.items():
        real = os.path.realpath(path)
        if not Path(real).exists():
            if not read_only:
                raise FileNotFoundError(f"writable folder {path} does not exist")
            continue
        plan[path] = (real, read_only)
        plan[real] = (real, read_only)
    return [(source, target, ro) for target, (source, ro) in sorted(plan.items(), key=_depth)]


def _depth(item: tuple[str, tuple[str, bool]]) -> tuple[int, str]:
    return item[0].count("/"), item[0]


def _bind(source: str, target: str, flags: int) -> None:
    old = _OLD + source
    if target.count("/") == 1 and Path(_OLD + target).is_symlink():
        # Merged-usr systems: /bin is a link into /usr, which is bound by itself.
        Path(target).symlink_to(Path(_OLD + target).readlink())
        return
    _mount_point(target, Path(old).is_dir())
    mount(old, target, None, MS_BIND | MS_REC)
    add_flags(target, flags)


def _is_covered(source: str, target: str, bound: dict[str, bool]) -> bool:
    """Whether the target is there already, read-only, under a folder bound before."""
    parents = [str(p) for p in Path(target).parents if str(p) in bound]
    try:
        same = os.path.samestat(Path(target).stat(), Path(_OLD + source).stat())
    except OSError:
        return False
    return same and (not parents or bound[parents[0]])


def _mount_point(target: str, is_folder: bool) -> None:
    path = Path(target)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_folder:
        path.mkdir()
    else:
        path.touch()


def add_flags(target: str, flags: int) -> None:
    """Add MS_* flags to a mount and all below it, on kernels before 5.12 one by one."""
    try:
        set_mount_flags(target, flags)
    except OSError:
        for point, old_flags in _mounts_below(target):
            mount(None, point, None, MS_REMOUNT | MS_BIND | flags | old_flags)


def _mounts_below(target: str) -> list[tuple[str, int]]:
    names = {"ro": MS_RDONLY, "nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}
    proc = "/proc" if Path("/proc/self").exists() else _OLD + "/proc"
    found = []
    for line in Path(f"{proc}/self/mountinfo").read_text().splitlines():
        fields = line.split()
        point = fields[4].encode().decode("unicode_escape")
        if point == target or point.startswith(target.rstrip("/") + "/"):
            bits = (names.get(option, 0) for option in fields[5].split(","))
            found.append((point, sum(bits)))
    return found


def _hide(path: str) -> None:
    """Cover a file or folder of the view with an empty one."""
    if not Path(path).exists():
        return
    if Path(path).is_dir():
        mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=555")
    else:
        mount("/dev/null", path, None, MS_BIND)


def bwrap_arguments(view: View) -> list[str]:
    """The same view in bubblewrap's words (0.8 or later)."""
    size = ["--size", str(view.tmp_mb << 20)]
    words = [*size, "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]
    words += [*size, "--tmpfs", "/dev/shm"]
    for device in view.devices:
        if device not in DEVICES:
            words += ["--dev-bind-try", device, device]
    for source, target, read_only in _resolve(view):
        top_link = target.count("/") == 1 and Path(target).is_symlink()
        if top_link:
            words += ["--symlink", str(Path(target).readlink()), target]
        else:
            words += ["--ro-bind" if read_only else "--bind", source, target]
    for path in view.hidden:
        if Path(path).is_dir():
            words += ["--tmpfs", path]
        elif Path(path).exists():
            words += ["--ro-bind", "/dev/null", path]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]
