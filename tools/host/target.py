"""The host target: CUDA and MUSA candidates executed on the CPU, in a sandbox."""

import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from musaagent.errors import InfraError, ToolchainMissing
from musaagent.tools import reference_session, session
from musaagent.tools.candidate import Candidate
from musaagent.tools.host.builder import HostBuilder
from musaagent.tools.host.locate import locate
from musaagent.tools.host.profile import host_profile
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.host.toolchain import NVCC_REMEDY, find_nvcc
from musaagent.tools.jail import JailSpec
from musaagent.tools.lending import LentFolder
from musaagent.tools.nvcc import RealCompile, real_compile
from musaagent.tools.opgraph import Plan
from musaagent.tools.port.checked_build import for_card, with_portability
from musaagent.tools.reference_pool import ReferencePool
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Build, Profile, Status, Verdict
from musaagent.tools.session import CandidateSession, RunnerSettings
from musaagent.tools.target import Capability, TargetName, VerifyOptions
from musaagent.tools.task import Task
from musaagent.tools.verifier import build_only, verify
from musaagent.tools.zygote import Zygote

BUILD_TIMEOUT_S = 180.0
REFERENCE_MEMORY_MB = 8192
UNTOUCHED_MB = 256 << 10
"""Tensors of the task's own sizes are reserved, and never written."""
# Tracing imports these at its first use, which takes longer than the trace.
TRACING_PRELOAD = (
    "torch._dynamo",
    "torch._inductor",
    "torch.fx.experimental.proxy_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch._subclasses.fake_tensor",
)
_PRELOAD = (
    "torch",
    "torch.utils.cpp_extension",
    "torch.utils._python_dispatch",
    "musaagent.tools.worker_candidate",
    "musaagent.tools.worker_reference",
    "musaagent.tools.reference",
    "musaagent.tools.plan",
    *TRACING_PRELOAD,
    "musaagent.tools.host.bridge",
    "musaagent.tools.host.torch_shim",
)
# cpp_extension asks for a card when it is imported; the usual way starts a thread of the driver.
_NO_CARD = {"CUDA_VISIBLE_DEVICES": "", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


class HostTarget:
    """Fulfils `musaagent.tools.target.Target`; use as a context manager or call close()."""

    name: TargetName = "host"
    runs_dry = True
    modes = frozenset({"no_kernels", "failing", "every_thread", "offset", "integers"})

    def __init__(self, cache_dir: Path | None = None, *, compile_for_gpu: bool = True) -> None:
        """`compile_for_gpu`: also compile with nvcc, where it is found, beside each verdict."""
        self._compile_for_gpu = compile_for_gpu
        self._builder = HostBuilder(cache_dir)
        self._zygote = Zygote(_PRELOAD, env=_NO_CARD)
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="host")
        self._scratch = Path(tempfile.mkdtemp(prefix="musaagent-"))
        self._lock = threading.Lock()
        self._references = ReferencePool(self._open_reference)
        self._plans: dict[str, Plan] = {}
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        # What a checked run of the same sources is to be built from.
        self._card_sources: dict[SourceSet, SourceSet] = {}

    def __enter__(self) -> "HostTarget":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def capabilities(self) -> tuple[Capability, ...]:
        from musaagent.tools.sandbox import sandbox_kind

        compiler = shutil.which("g++")
        nvcc = find_nvcc()
        sandbox = sandbox_kind()
        return (
            Capability("g++", compiler is not None, compiler or "not found", "install g++ 12+"),
            Capability(
                "nvcc",
                nvcc is not None,
                str(nvcc or "not found: no real compile for sm_90, no register figures"),
                NVCC_REMEDY,
                required=False,
            ),
            Capability("sandbox", sandbox.ok, sandbox.detail, sandbox.remedy, required=False),
        )

    def warm_up(self) -> None:
        """Start the fork server and build what every candidate needs (once for each machine)."""
        if shutil.which("g++") is None:
            raise ToolchainMissing("g++ is not on the PATH; the host target needs it: install g++")
        for started in self.start_warm_up():
            started.result()

    def start_warm_up(self) -> "list[Future[Any]]":
        """What warm_up does, behind the caller's back; who needs a part waits for it."""
        return [
            self._pool.submit(self._zygote.start),
            self._pool.submit(self._builder.prepare, "fast"),
            self._pool.submit(self._builder.runtime_library),
        ]

    def prepare_checks(self) -> None:
        """Build what every checked run needs (once for each machine), before it is asked for."""
        self._builder.prepare("check")

    # ---- Target

    def plan(self, task: Task) -> Plan:
        with self._lock:
            known = self._plans.get(task.hash)
        if known is None:
            known = self._references.home(task).plan()
            with self._lock:
                self._plans[task.hash] = known
        return known

    def build(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Build:
        return build_only(self, candidate, options)

    def verify(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
        verdict = verify(self, task, candidate, options)
        with self._lock:
            self._verdicts[(task.hash, candidate.hash)] = verdict
        return verdict

    def profile(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Profile:
        with self._lock:
            verdict = self._verdicts.get((task.hash, candidate.hash))
        if verdict is None or not verdict.checked:
            checked = VerifyOptions(**{**vars(options), "check": True})
            verdict = self.verify(task, candidate, checked)
        if verdict.status is not Status.PASSED:
            raise InfraError(f"candidate {candidate.hash} did not pass again: {verdict.message}")
        reference = self.reference(task, "check")
        try:
            return host_profile(self.plan(task), verdict, reference.shapes)
        finally:
            self.release(reference)

    def forget(self, task: Task) -> None:
        with self._lock:
            self._plans.pop(task.hash, None)
            judged = [key for key in self._verdicts if key[0] == task.hash]
            for key in judged:
                del self._verdicts[key]
        self._references.forget(task)

    def close(self) -> None:
        self._references.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._zygote.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # ---- Workbench

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]":
        return self._pool.submit(call, *args, **kwargs)

    def reference(self, task: Task, scale: str) -> ReferenceSession:
        return self._references.borrow(task, scale)

    def release(self, reference: ReferenceSession) -> None:
        self._references.give_back(reference)

    def other_sizes(self, task: Task, lane: str) -> ReferenceSession | None:
        return self._references.borrow_lane(task, lane)

    def _open_reference(
        self, task: Task, scale: str, known: dict[str, int] | None
    ) -> ReferenceSession:
        spec = JailSpec(memory_mb=REFERENCE_MEMORY_MB, cpu_s=1200)
        child = self._zygote.spawn(reference_session.WORKER_ENTRY, spec, name=f"reference {scale}")
        opened = ReferenceSession(child, task)
        try:
            opened.open(scale, known)
        except BaseException:
            opened.close()
            raise
        return opened

    def open_candidate(self, options: VerifyOptions, *, checked: bool) -> CandidateSession:
        mode: Literal["fast", "check"] = "check" if checked else "fast"

        def build(sources: SourceSet) -> Build:
            own = for_card(sources, options.arch)
            if own is not sources:
                self._card_sources[sources] = own
            limit = options.build_timeout_s or BUILD_TIMEOUT_S
            return self._builder.build(own, mode=mode, timeout_s=limit)

        def checked_build(sources: SourceSet) -> Build:
            return with_portability(sources, options.arch, build)

        runtime = self._builder.runtime_library()
        lent = LentFolder(self._builder.cache_dir)
        settings = RunnerSettings(
            runtime_library=str(runtime),
            checked=checked,
            warp_size=options.warp_size,
            timeout_s=options.timeout_s,
        )
        spec = JailSpec(
            memory_mb=options.memory_mb,
            untouched_mb=UNTOUCHED_MB,
            cpu_s=int(options.timeout_s * 4) + 60,
            read_only=(str(runtime.parent), str(lent.path)),
        )
        try:
            child = self._zygote.spawn(session.WORKER_ENTRY, spec, name="candidate")
        except BaseException:
            lent.remove()
            raise
        opened = CandidateSession(child, settings, checked_build, locate)
        opened.lend, opened.on_close = lent.lend, lent.remove
        return opened

    def real_compile(self, sources: SourceSet) -> RealCompile:
        if not self._compile_for_gpu:
            return RealCompile(ok=None, engine="not asked for")
        return real_compile(sources, cache=self._builder.cache)

    def prebuild(self, sources: SourceSet, *, checked: bool) -> Build:
        mode: Literal["fast", "check"] = "check" if checked else "fast"
        own = self._card_sources.pop(sources, sources)
        return self._builder.build(own, mode=mode, timeout_s=BUILD_TIMEOUT_S)
