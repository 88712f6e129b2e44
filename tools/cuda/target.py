"""The cuda target: candidates built by nvcc and run on this machine's GPUs, each in a jail.

Without a GPU it compiles for sm_90 and says that nothing ran.
"""

import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from musaagent.errors import InfraError
from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda import reference as gpu_reference
from musaagent.tools.cuda import session as gpu_session
from musaagent.tools.cuda.bench import BUILD_TIMEOUT_S, CompileBench, GpuBench
from musaagent.tools.cuda.builder import Builder, CudaBuilder
from musaagent.tools.cuda.checked import with_checked_run
from musaagent.tools.cuda.devices import Gpu, GpuInfo, GpuPool, device_files, find_gpus
from musaagent.tools.cuda.health import capabilities
from musaagent.tools.cuda.kinds import PROBE_ENTRY, working_kind
from musaagent.tools.cuda.profile import cuda_profile
from musaagent.tools.cuda.reference import GpuReference
from musaagent.tools.cuda.references import References
from musaagent.tools.cuda.session import CudaSession
from musaagent.tools.cuda.shared import Shared
from musaagent.tools.cuda.shares import with_share
from musaagent.tools.cuda.sizes import trial_sizes
from musaagent.tools.cuda.split import CUBIN_NAME
from musaagent.tools.cuda.timed import with_times
from musaagent.tools.cuda.toolchain import DEFAULT_ARCH
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.host.target import TRACING_PRELOAD
from musaagent.tools.jail import JailSpec, Kind
from musaagent.tools.lending import LentFolder
from musaagent.tools.nvcc import RealCompile
from musaagent.tools.opgraph import Plan
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Build, Profile, Status, Verdict
from musaagent.tools.session import RunnerSettings
from musaagent.tools.target import Capability, TargetName, VerifyOptions
from musaagent.tools.task import Task
from musaagent.tools.verifier import build_only, verify
from musaagent.tools.zygote import Child, Zygote

_REFERENCE_MEMORY_MB = 65536
_CANDIDATE_MEMORY_MB = 32768
_SHARED_MB = 16384  # of host memory, for one set of inputs
# Forked workers must find torch imported and CUDA untouched.
_PRELOAD = (
    "torch",
    *TRACING_PRELOAD,
    "torch._inductor.config",  # torch's profiler imports it at its first use, which takes seconds
    "torch.utils._python_dispatch",
    "torch.profiler",
    "musaagent.tools.cuda.worker",
    "musaagent.tools.cuda.worker_reference",
    "musaagent.tools.cuda.clock",
    "musaagent.tools.cuda.bridge",
    "musaagent.tools.host.torch_shim_extension",
)
_PLAN_PRELOAD = (
    "torch",
    *TRACING_PRELOAD,
    "musaagent.tools.worker_reference",
    "musaagent.tools.plan",
)


class CudaTarget:
    """Fulfils `musaagent.tools.target.Target`; use as a context manager or call close()."""

    name: TargetName = "cuda"
    # What another vendor's target has of its own.
    preload: tuple[str, ...] = _PRELOAD
    candidate_entry = gpu_session.WORKER_ENTRY
    reference_entry = gpu_reference.WORKER_ENTRY
    probe_entry = PROBE_ENTRY
    holds_launches = True
    """Whether launches of what is built here can be held back."""
    tries_sizes = True
    """Whether candidates are run at other sizes than the task's own."""
    no_card = "there is no NVIDIA GPU here, so nothing ran"

    def __init__(self, cache_dir: Path | None = None, *, jobs: int | None = None) -> None:
        self.pool = GpuPool(self.find_cards())
        self._builder = self.make_builder(cache_dir)
        self._zygote, self._plan_zygote = Zygote(self.preload), Zygote(_PLAN_PRELOAD)
        self._threads = ThreadPoolExecutor(jobs or 8, thread_name_prefix="cuda")
        self._scratch = Path(tempfile.mkdtemp(prefix="musaagent-"))
        self._lock = threading.RLock()
        self._kind: Kind | None = None
        self._references = References(self._start_plain, self._start_on_card)
        self.lane_sizes: Shared[tuple[str, str], dict[str, int] | None] = Shared()
        self._building: Shared[str, Build] = Shared()
        self._plans: dict[str, Plan] = {}
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        self._turns: dict[tuple[str, str], threading.RLock] = {}

    def __enter__(self) -> "CudaTarget":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def builder(self) -> Builder:
        return self._builder

    def find_cards(self) -> tuple[GpuInfo, ...]:
        return find_gpus()

    def make_builder(self, cache_dir: Path | None) -> Builder:
        gpus = self.pool.gpus
        return CudaBuilder(gpus[0].info.arch if gpus else DEFAULT_ARCH, cache_dir)

    def device_files(self) -> tuple[str, ...]:
        """What a jail needs of /dev."""
        return device_files()

    def card_state(self, gpu: Gpu) -> tuple[str, str]:
        """What the card is doing before time is taken, and what is wrong with that; '' for none."""
        return "", ""

    def make_profile(
        self,
        bench: "GpuBench",
        task: Task,
        candidate: Candidate,
        options: VerifyOptions,
        verdict: Verdict,
    ) -> Profile:
        return cuda_profile(bench, task, candidate, options, verdict)

    def make_checks(
        self,
        bench: "GpuBench",
        task: Task,
        candidate: Candidate,
        options: VerifyOptions,
        verdict: Verdict,
    ) -> Verdict:
        """The verdict with what the vendor's memory checker finds, where that is asked for."""
        return with_checked_run(bench, task, candidate, options, verdict)

    def arch_for(self, options: VerifyOptions) -> str:
        """What a candidate is compiled for."""
        return self._builder.arch

    def compile(self, sources: SourceSet, timeout_s: float, arch: str) -> Build:
        """One build, without a look at who else makes it."""
        return self._builder.build(sources, timeout_s=timeout_s)

    def capabilities(self) -> tuple[Capability, ...]:
        return capabilities(tuple(gpu.info for gpu in self.pool.gpus))

    def warm_up(self) -> None:
        """Start the fork server and build what every candidate needs (once for each machine)."""
        for started in self.start_warm_up():
            started.result()

    def start_warm_up(self) -> "list[Future[Any]]":
        """What warm_up does, behind the caller's back; who needs a part waits for it."""
        return [
            self._threads.submit(self._zygote.start),
            self._threads.submit(self._plan_zygote.start),
            self._threads.submit(self._builder.runtime_library),
        ]

    # ---- Target

    def plan(self, task: Task) -> Plan:
        with self._lock:
            known = self._plans.get(task.hash)
        if known is None:
            known = self.plain_reference(task, "run").plan()
            with self._lock:
                self._plans[task.hash] = known
        return known

    def build(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Build:
        """In a process without a GPU, so it may overlap with what runs on one."""
        return build_only(CompileBench(self), candidate, options)

    def verify(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
        if not self.pool.gpus:
            return self._compiled_only(task, candidate, options)
        gpu = self.pool.take()
        try:
            verdict = self._verify_on(gpu, task, candidate, options)
            crowded = gpu.tenants > 1
        finally:
            gpu.leave()
        if verdict.status is Status.OOM or (verdict.status is Status.TIMEOUT and crowded):
            # Others may have held the memory or the card: believed only when it happens alone.
            with gpu.alone():
                gpu.enter()
                try:
                    verdict = self._verify_on(gpu, task, candidate, options)
                finally:
                    gpu.leave()
        with self._lock:
            self._verdicts[(task.hash, candidate.hash)] = verdict
        return verdict

    def _verify_on(
        self, gpu: Gpu, task: Task, candidate: Candidate, options: VerifyOptions
    ) -> Verdict:
        with self._task_lock(task, gpu), gpu.seats:
            return self._verify_in_turn(gpu, task, candidate, options)

    def _task_lock(self, task: Task, gpu: Gpu) -> threading.RLock:
        """The reference worker of a task answers for one candidate at a time."""
        with self._lock:
            return self._turns.setdefault((task.hash, gpu.info.uuid), threading.RLock())

    def _verify_in_turn(
        self, gpu: Gpu, task: Task, candidate: Candidate, options: VerifyOptions
    ) -> Verdict:
        bench = GpuBench(self, gpu)
        plain = replace(options, check=False)
        verdict = verify(bench, task, candidate, plain)
        if bench.unseen:
            flag = f"which kernels ran was not seen: {bench.unseen}"
            verdict = verdict.model_copy(update={"flags": (*verdict.flags, flag)})
        verdict = with_share(verdict, bench.device_time)
        verdict = self.make_checks(bench, task, candidate, options, verdict)
        if verdict.status is Status.PASSED and options.timing:
            verdict = with_times(bench, task, candidate, plain, verdict)
        return verdict

    def drop_reference(self, task: Task, gpu: Gpu) -> None:
        """Those at all sizes."""
        self._references.drop(task, gpu)

    def plan_or_none(self, task: Task) -> Plan | None:
        try:
            return self.plan(task)
        except InfraError:
            return None

    def _compiled_only(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
        build = self.build(task, candidate, options)
        if not build.ok:
            first = build.diagnostics[0].message if build.diagnostics else "the build failed"
            return Verdict(
                status=Status.COMPILE_ERROR,
                target=self.name,
                message=first,
                details=build.log_tail,
                build=build,
            )
        build, arch = self._builder.with_instructions(build), self.arch_for(options)
        what = f"compiled for {arch}" if build.level else f"nothing to compile on import ({arch})"
        return Verdict(
            status=Status.INFRA_ERROR,
            target=self.name,
            message=f"compile-only: {what}; {self.no_card}",
            build=build,
        )

    def profile(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Profile:
        with self._lock:
            verdict = self._verdicts.get((task.hash, candidate.hash))
        if verdict is None:
            verdict = self.verify(task, candidate, options)
        if verdict.status is not Status.PASSED:
            raise InfraError(f"candidate {candidate.hash} did not pass again: {verdict.message}")
        gpu = self.pool.take()
        try:
            with self._task_lock(task, gpu):
                bench = GpuBench(self, gpu)
                return self.make_profile(bench, task, candidate, options, verdict)
        finally:
            gpu.leave()

    def forget(self, task: Task) -> None:
        with self._lock:
            self._plans.pop(task.hash, None)
            for key in [key for key in self._verdicts if key[0] == task.hash]:
                del self._verdicts[key]
        self.lane_sizes.take(lambda key: key[0] == task.hash)
        self._references.forget(task)

    def close(self) -> None:
        self._references.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._zygote.close()
        self._plan_zygote.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # ---- for the benches

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]":
        return self._threads.submit(call, *args, **kwargs)

    def plain_reference(self, task: Task, scale: str) -> ReferenceSession:
        """On the CPU: for tracing (at scale `run`), and for inputs of a checked run."""
        return self._references.plain(task, scale)

    def build_once(self, sources: SourceSet, timeout_s: float, arch: str) -> Build:
        """Who asks for the same while it is built gets that result, a time-out too."""
        key = arch + sources.model_dump_json()
        return self._building.get(key, lambda: self.compile(sources, timeout_s, arch), keep=False)

    def figures(self, sources: SourceSet, timeout_s: float, arch: str) -> RealCompile:
        """What ptxas and the instructions say of a build that is made now, or in the cache."""
        build = self._builder.with_instructions(self.build_once(sources, timeout_s, arch))
        return RealCompile(ok=True, resources=build.resources, engine=build.real_compile)

    def gpu_reference(
        self, task: Task, gpu: Gpu, overrides: dict[str, int] | None = None
    ) -> GpuReference:
        """At the sizes of trials (`cuda.sizes`), unless others are given."""
        if overrides is None:
            return self._references.on_card(task, gpu, "trials", lambda: trial_sizes(self, task))
        return self._references.on_card(
            task, gpu, f"at {sorted(overrides.items())}", lambda: overrides
        )

    def _start_plain(self, entry: str, spec: JailSpec) -> Child:
        return self._plan_zygote.spawn(entry, spec, name="reference plan")

    def _start_on_card(self) -> Child:
        spec = self.gpu_spec(_REFERENCE_MEMORY_MB, allow_exec=True, tmp_mb=2048)
        spec = replace(spec, file_size_mb=_SHARED_MB)
        return self._zygote.spawn(self.reference_entry, spec, name="reference gpu")

    def gpu_spec(self, memory_mb: int, *, allow_exec: bool = False, tmp_mb: int = 512) -> JailSpec:
        """A jail with the cards in it, of the best kind that CUDA comes up in."""
        if self._kind is None:
            with self._lock:
                if self._kind is None:
                    uuid = self.pool.gpus[0].info.uuid
                    devices = self.device_files()
                    self._kind = working_kind(self._zygote, devices, uuid, self.probe_entry)
        return JailSpec(
            kind=self._kind,
            memory_mb=memory_mb,
            address_space=False,
            devices=self.device_files(),
            read_only=(str(self._builder.cache_dir), "/sys"),
            max_processes=256,
            tmp_mb=tmp_mb,
            allow_exec=allow_exec,
            cpu_s=3600,
        )

    def open_session(
        self, options: VerifyOptions, gpu: Gpu | None, thread: int | None = None
    ) -> CudaSession:
        """`thread`: of the verification that it is for, where that is not the caller's."""
        timeout_s, arch = options.build_timeout_s or BUILD_TIMEOUT_S, self.arch_for(options)

        def build(sources: SourceSet) -> Build:
            return self.build_once(sources, timeout_s, arch)

        runtime = self._builder.runtime_library()
        lent = LentFolder(self._builder.cache_dir, (CUBIN_NAME,))
        settings = RunnerSettings(
            runtime_library=str(runtime),
            checked=False,
            warp_size=32,
            timeout_s=options.timeout_s,
        )
        readable = (str(runtime.parent), str(lent.path))
        if gpu is None:
            spec = JailSpec(memory_mb=options.memory_mb, read_only=readable)
        else:
            spec = self.gpu_spec(max(options.memory_mb, _CANDIDATE_MEMORY_MB))
            spec = replace(spec, read_only=(*readable, "/sys"))
            gpu.enter(thread)
        try:
            child = self._zygote.spawn(self.candidate_entry, spec, name="candidate")
        except BaseException:
            lent.remove()
            if gpu is not None:
                gpu.leave()
            raise
        opened = CudaSession(child, settings, build, gpu)
        opened.lend, opened.on_close = lent.lend, lent.remove
        return opened
