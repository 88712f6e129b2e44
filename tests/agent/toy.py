"""A target of its own: kernels are Python expressions over a number, the op is doubling.

It fulfils the Target protocol with a compiler (Python's), values that are judged, and a profile
that counts loads. Run as a script it forks processes that solve or resume a run, and that stop dead
inside a call when told to.
"""

import ast
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

from musaagent.errors import SandboxLost
from musaagent.policies.policy import PolicyAnswer, PolicyRequest
from musaagent.tools.candidate import Candidate
from musaagent.tools.opgraph import OpGraph, Plan, Trap
from musaagent.tools.results import (
    Build,
    Diagnostic,
    ErrorSample,
    Launch,
    MismatchKind,
    OutputError,
    Profile,
    Status,
    Tolerance,
    Trial,
    Verdict,
)
from musaagent.tools.target import Capability, TargetName, VerifyOptions
from musaagent.tools.task import Task

OP = """
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return 2 * x

def get_inputs():
    return [1.0]
"""


def candidate(kernel: str) -> str:
    """An answer whose kernel is the expression."""
    return f"```python\nKERNEL = {kernel!r}\n\nclass ModelNew:\n    kernel = KERNEL\n```"


class ToyTarget:
    """Doubling by expressions. `lost` names the calls that fail once, as a lost sandbox would."""

    name: TargetName = "host"

    def __init__(self, log: Path | None = None, lost: tuple[str, ...] = ()) -> None:
        self.calls: list[str] = []
        self.lost = list(lost)
        self.log = log

    def capabilities(self) -> tuple[Capability, ...]:
        return (Capability("python", True, sys.version),)

    def plan(self, task: Task) -> Plan:
        self._called("plan")
        return Plan(
            task=task.hash,
            graph=OpGraph(inputs=()),
            input_shapes=("float32[1048576]",),
            scaled_shapes=("float32[4]",),
            output_shapes=("float32[1048576]",),
            scaling={"N": (1048576, 4)},
            flops=1048576,
            least_bytes=8388608,
            traps=(Trap(name="zeros_pass", message="zero doubled is zero"),),
        )

    def build(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Build:
        self._called("build")
        kernel = self._kernel(candidate)
        try:
            ast.parse(kernel, mode="eval")
        except SyntaxError as error:
            diagnostic = Diagnostic(
                tool="python",
                severity="error",
                message=error.msg,
                source="cuda_sources[0]",
                line=error.lineno or 0,
                text=kernel,
            )
            return Build(ok=False, diagnostics=(diagnostic,), seconds=0.1)
        return Build(ok=True, level="thin", seconds=0.1, compiler_seconds=0.1)

    def verify(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
        self._called("verify")
        kernel = self._kernel(candidate)
        build = Build(ok=True, level="thin", seconds=0.1, compiler_seconds=0.1)
        known = {"target": self.name, "build": build, "shapes": ("float32[4]",)}
        try:
            got = [float(eval(kernel, {"x": x})) for x in (1.0, 2.0, 3.0, 4.0)]
        except ZeroDivisionError as error:
            return Verdict(status=Status.RUNTIME_ERROR, message=str(error), **known)
        pairs = list(zip((2.0, 4.0, 6.0, 8.0), got, strict=True))
        trials = tuple(Trial(name=f"seed {i}", passed=a == b) for i, (a, b) in enumerate(pairs))
        wrong = [(i, a, b) for i, (a, b) in enumerate(pairs) if a != b]
        if not wrong:
            tolerance = Tolerance(dtype="float32", atol=0.0, rtol=0.0, rule="exact")
            return Verdict(
                status=Status.PASSED,
                trials=trials,
                checked=options.check,
                tolerances=(tolerance,),
                reference="float64",
                flags=("toy",),
                **known,
            )
        error = OutputError(
            output="output 0",
            max_abs=max(abs(a - b) for _, a, b in wrong),
            max_rel=1.0,
            mean_abs=1.0,
            tolerance_abs=0.0,
            bad_fraction=len(wrong) / len(pairs),
            samples=tuple(ErrorSample(index=(i,), expected=a, got=b) for i, a, b in wrong),
        )
        message = f"{len(wrong)} of {len(pairs)} elements are wrong"
        return Verdict(
            status=Status.MISMATCH,
            kind=MismatchKind.NUMERIC,
            message=message,
            trials=trials,
            errors=(error,),
            **known,
        )

    def profile(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Profile:
        self._called("profile")
        loads = self._kernel(candidate).count("x")
        launch = Launch(
            kernel="toy",
            grid=(1, 1, 1),
            block=(4, 1, 1),
            shared_bytes=0,
            global_read_bytes=16 * loads,
            global_write_bytes=16,
        )
        suggestion = "load x once" if loads > 1 else ""
        return Profile(
            target=self.name,
            engine="toy",
            launches=(launch,),
            bound="memory",
            suggestion=suggestion,
        )

    def forget(self, task: Task) -> None:
        self.calls.append("forget")

    def close(self) -> None:
        self.calls.append("close")

    def _kernel(self, candidate: Candidate) -> str:
        first = ast.parse(candidate.source).body[0]
        assert isinstance(first, ast.Assign)
        return str(ast.literal_eval(first.value))

    def _called(self, call: str) -> None:
        self.calls.append(call)
        stop_dead_in(call, self.log)
        if call in self.lost:
            self.lost.remove(call)
            raise SandboxLost(f"lost in {call}")


class ToyPolicy:
    """Plays answers by turn; the answer to a request depends on nothing that a process forgets."""

    name = "toy"

    def __init__(self, answers: list[str], log: Path | None = None) -> None:
        self.answers = answers
        self.requests: list[PolicyRequest] = []
        self.log = log

    def propose(self, request: PolicyRequest) -> PolicyAnswer:
        self.requests.append(request)
        stop_dead_in("propose", self.log)
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"answered turn {request.turn}\n")
        if request.turn > len(self.answers):
            return PolicyAnswer(text="", refusal="out of answers")
        text = self.answers[request.turn - 1]
        return PolicyAnswer(text=text, policy_state={"turn": request.turn})


def stop_dead_in(call: str, log: Path | None) -> None:
    """Tell the parent, then wait for its SIGKILL."""
    if log is not None and os.environ.get("TOY_STOP_IN") == call:
        with log.open("a") as file:
            file.write(f"waiting in {call}\n")
        time.sleep(600)


def main() -> None:
    """Fork a process for each job on stdin; print its pid, and its wait status when it is gone.

    What takes seconds to import is imported here, once.
    """
    for name in ("langgraph.checkpoint.sqlite", "langsmith.run_helpers", "musaagent.graph"):
        importlib.import_module(name)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                work(**json.loads(line))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


def work(command: str, folder: str, kernels: list[str], stop_in: str) -> None:
    from musaagent.app import resume, solve

    os.environ["TOY_STOP_IN"] = stop_in
    place = Path(folder)
    target = ToyTarget(log=place / "log")
    policy = ToyPolicy([candidate(kernel) for kernel in kernels], log=place / "log")
    if command == "solve":
        result = solve(place / "double.py", target=target, policy=policy, out=place / "run")
    else:
        result = resume(place / "run", target=target, policy=policy)
    told = {"result": json.loads(result.model_dump_json()), "calls": target.calls}
    (place / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
