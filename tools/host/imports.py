"""What a built library takes from others: names that no candidate has an honest use for.

The text can hide such a name (by a macro, or in pieces), the library's own table cannot.
"""

import subprocess
from pathlib import Path

from musaagent.tools.host.abi import control_functions
from musaagent.tools.results import Diagnostic

_CONTROL = control_functions()
_PAST_PAGES = frozenset(
    ("mprotect", "pkey_mprotect", "mremap", "process_vm_readv", "process_vm_writev", "ptrace")
)
"""They reach memory whose pages are closed, which does nothing to a GPU's."""
_REACHING = frozenset(
    (
        *("dlopen", "dlmopen", "dlsym", "dlvsym", "dladdr", "dl_iterate_phdr"),
        *("sigaction", "signal", "syscall", "fork", "vfork", "execve", "popen", "system"),
    )
)


def refused_imports(library: Path) -> tuple[Diagnostic, ...]:
    """An error for each function of the verifier's that the library calls, or that opens pages."""
    names = _imported(library)
    messages = [f"{name} is the verifier's own" for name in sorted(names & _CONTROL)]
    messages += [f"{name} reaches past the runtime" for name in sorted(names & _PAST_PAGES)]
    return tuple(Diagnostic(tool="host", severity="error", message=m) for m in messages)


def remarkable_imports(library: Path) -> tuple[str, ...]:
    """A flag for each system call by which host code gets past what is watched."""
    return tuple(
        f"audit: its library calls {name} (reaches past the runtime)"
        for name in sorted(_imported(library) & _REACHING)
    )


def _imported(library: Path) -> frozenset[str]:
    try:
        done = subprocess.run(
            ["nm", "-D", "--undefined-only", str(library)],
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    names = (line.split()[-1] for line in done.stdout.splitlines() if line.split())
    return frozenset(name.partition("@")[0] for name in names)
