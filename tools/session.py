"""The parent's side of the candidate worker: one jailed process, requests with a wall budget."""

import json
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from musaagent.tools.host.host_access import host_access
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.results import Build, Finding, FindingKind, Launch, Status
from musaagent.tools.wire import Channel, WireError
from musaagent.tools.zygote import Child

WORKER_ENTRY = "musaagent.tools.worker_candidate:main"


class CandidateFailure(Exception):
    """What ended the candidate, as a value for the verdict. Never leaves the verifier."""

    def __init__(
        self,
        status: Status,
        message: str,
        details: str = "",
        line: int = 0,
        *,
        raised: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.details = details
        self.line = line
        self.raised = raised
        """Whether the candidate itself raised an exception; its process lives on."""


@dataclass(frozen=True)
class RunnerSettings:
    """How kernels run in one worker."""

    runtime_library: str
    checked: bool
    warp_size: int
    timeout_s: float


MOST_BUILDS = 64
"""A candidate has a handful; each takes a compiler some seconds."""


@dataclass
class Evidence:
    """What the worker's reports held, gathered over all requests."""

    findings: list[Finding] = field(default_factory=list)
    launches: dict[tuple[Any, ...], Launch] = field(default_factory=dict)

    @property
    def launch_count(self) -> int:
        return sum(launch.count for launch in self.launches.values())


class CandidateSession:
    """Talks to one worker. Requests raise CandidateFailure; builds are kept in `builds`."""

    def __init__(
        self,
        child: Child,
        settings: RunnerSettings,
        build: Callable[[SourceSet], Build],
        locate: Callable[[Finding, dict[str, Any]], Finding],
    ) -> None:
        self.child = child
        self.settings = settings
        self.builds: list[tuple[SourceSet, Build]] = []
        self.evidence = Evidence()
        self.on_sources: Callable[[SourceSet], object] = lambda sources: None
        """Called with each source set before it is built."""
        self.lend: Callable[[str], str] = lambda library: library
        """Where the worker finds a built library: it sees no other candidate's."""
        self.on_close: Callable[[], object] = lambda: None
        self.ran_all_the_same = False
        """Whether kernels ran, or may have, when launches were to be held back last."""
        self._build = build
        self._locate = locate
        self._closing = threading.Lock()
        self._closed = False

    def setup(self) -> None:
        settings = self.settings
        self.request(
            {
                "op": "setup",
                "runtime": settings.runtime_library,
                "checked": settings.checked,
                **self.order_fields(0, 0),
            },
            doing="start",
        )

    def order_fields(self, order: int, seed: int) -> dict[str, Any]:
        """Thread order for the next launches: 0 forward, 1 reverse, 2 random by `seed`."""
        threads = 1 if self.settings.checked else 0
        return {
            "order": order,
            "order_seed": seed,
            "threads": threads,
            "warp_size": self.settings.warp_size,
        }

    def request(
        self,
        header: dict[str, Any],
        blobs: Sequence[Any] = (),
        *,
        doing: str,
        timeout_s: float | None = None,
        descriptors: Sequence[int] = (),
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Send, serve builds, return the answer. `doing` names the step in messages."""
        channel: Channel = self.child.channel
        nonce = secrets.token_hex(8)
        left = self.settings.timeout_s if timeout_s is None else timeout_s
        try:
            if channel.pending():
                raise forged(doing)
            channel.send(header | {"nonce": nonce}, blobs)
            if descriptors:
                channel.send_descriptors(descriptors, timeout_s=max(left, 0.05))
            while True:
                start = time.monotonic()
                answer, out = channel.recv(max(left, 0.05))
                left -= time.monotonic() - start
                if answer.get("op") != "build":
                    break
                channel.send(self._serve_build(answer), [])
        except TimeoutError:
            self.child.kill()
            raise self._timed_out(doing) from None
        except (WireError, OSError, EOFError, KeyError, TypeError, ValueError) as error:
            raise self._died(doing, error) from None
        if answer.get("nonce") != nonce:
            raise forged(doing)
        self._read_report(answer.get("report"))
        if answer.get("ok") is not True:
            raise self._raised(doing, answer.get("error"))
        return answer, out

    def _serve_build(self, answer: dict[str, Any]) -> dict[str, Any]:
        if len(self.builds) >= MOST_BUILDS:
            raise CandidateFailure(
                Status.COMPILE_ERROR, f"asked for more than {MOST_BUILDS} builds", ""
            )
        fields = {key: value for key, value in answer.items() if key in SourceSet.model_fields}
        sources = SourceSet.model_validate(fields)
        self.on_sources(sources)
        build = self._build(sources)
        self.builds.append((sources, build))
        if not build.ok:
            first = build.diagnostics[0].message if build.diagnostics else build.log_tail
            return {"ok": False, "error": f"Error building extension '{sources.name}': {first}"}
        return {
            "ok": True,
            "level": build.level,
            # A build that was only looked at (no card to load it for) has none.
            "library": self.lend(build.libraries[0]) if build.libraries else "",
            "module": sources.name,
            "functions": None if sources.functions is None else list(sources.functions),
        }

    def _timed_out(self, doing: str) -> CandidateFailure:
        if self.child.memory_exceeded:
            return CandidateFailure(Status.OOM, f"over the memory limit while it was to {doing}")
        message = f"still running after {self.settings.timeout_s:g} s (to {doing})"
        return CandidateFailure(Status.TIMEOUT, message, self.child.stderr_tail)

    def _died(self, doing: str, error: Exception) -> CandidateFailure:
        """The worker ended, or what it sent was no answer."""
        self.child.wait(2.0)
        if self.child.memory_exceeded:
            return CandidateFailure(Status.OOM, f"over the memory limit while it was to {doing}")
        code = self.child.exit
        self.child.kill()
        if code is None:
            message = f"sent no valid answer when it was to {doing}: {error}"
        elif touched := host_access(self.child.stderr_tail):
            message = touched
        elif code < 0:
            message = f"the process died of {_signal_name(-code)} when it was to {doing}"
        else:
            message = f"the process ended by itself (exit code {code}) when it was to {doing}"
        return CandidateFailure(Status.RUNTIME_ERROR, message, self.child.stderr_tail)

    def _raised(self, doing: str, error: Any) -> CandidateFailure:
        if not isinstance(error, dict):
            return CandidateFailure(Status.RUNTIME_ERROR, f"sent no valid answer to {doing}")
        kind, text = str(error.get("type")), str(error.get("message"))
        first = text.strip().splitlines()[0] if text.strip() else ""
        status = Status.OOM if error.get("memory") else Status.RUNTIME_ERROR
        line = error.get("line")
        line = line if isinstance(line, int) else 0
        place = f" (candidate.py line {line})" if line else ""
        message = f"{kind}: {first}{place}" if first else f"{kind}{place}"
        details = str(error.get("traceback", ""))
        return CandidateFailure(status, message, details, line, raised=True)

    def _read_report(self, text: Any) -> None:
        """Findings and launches since the last report; text that is no report is dropped."""
        if not isinstance(text, str) or not text:
            return
        try:
            report = json.loads(text)
            findings = [_finding(f) for f in report["findings"]]
            launches = [Launch(**launch) for launch in report["launches"]]
        except (ValueError, TypeError, KeyError):
            return
        for raw, finding in zip(report["findings"], findings, strict=True):
            self.evidence.findings.append(self._locate(finding, raw))
        for launch in launches:
            key = (launch.kernel, launch.grid, launch.block, launch.shared_bytes)
            old = self.evidence.launches.get(key)
            self.evidence.launches[key] = launch if old is None else _merge(old, launch)

    def close(self) -> None:
        """Once; a second call returns when the first has."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._close()

    def _close(self) -> None:
        try:
            self.child.kill()
        finally:
            self.on_close()


def forged(doing: str) -> CandidateFailure:
    """For a message that no request asked for (exploits 34 and 35)."""
    message = f"wrote to the verifier's channel by itself (when it was to {doing})"
    return CandidateFailure(Status.ILLEGAL, message)


def _finding(raw: dict[str, Any]) -> Finding:
    return Finding(
        kind=FindingKind(raw["kind"]),
        kernel=str(raw["kernel"]),
        message=str(raw["message"]),
        block=None if raw.get("block") is None else tuple(raw["block"]),
        thread=None if raw.get("thread") is None else tuple(raw["thread"]),
        source=str(raw.get("source") or ""),
        line=int(raw.get("line") or 0),
    )


def _merge(old: Launch, new: Launch) -> Launch:
    return old.model_copy(
        update={
            "count": old.count + new.count,
            "global_read_bytes": old.global_read_bytes + new.global_read_bytes,
            "global_write_bytes": old.global_write_bytes + new.global_write_bytes,
        }
    )


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
