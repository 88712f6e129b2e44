"""What is tried on a candidate that passed: whether it does the work, and how far it goes.

A cache, work that its kernels do not do, and a size of the task's own that fails decide; the rest
is told as flags, for the task's own inputs passed.
"""

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from musaagent.errors import InfraError, TaskError
from musaagent.tools.ahead import Ahead
from musaagent.tools.compare import compare_all
from musaagent.tools.gathered import Run
from musaagent.tools.judge import Judgement, decisive, defined, void_outputs
from musaagent.tools.lanes import LANES, ODD, OWN
from musaagent.tools.own_sizes import plain_names
from musaagent.tools.reference_session import Expected, ReferenceSession
from musaagent.tools.results import MismatchKind, Status, Trial, Verdict
from musaagent.tools.session import CandidateFailure, CandidateSession
from musaagent.tools.steps import Ask, Case, Pair, construct, decide, run_pair
from musaagent.tools.tolerance import ToleranceRule

STRESS = {
    "small": "inputs a thousandth as large",
    "large": "inputs a thousand times as large",
    "spikes": "inputs of which a few outweigh the rest",
    "heavy": "inputs of very different sizes",
    "dips": "inputs of which a few have the other sign",
    "fixed": "other values where the task always draws the same",
    "negative": "inputs without a positive value",
    "integers": "integers below zero",
    "ties": "inputs with many equal values",
    "constant": "rows of one value",
    "denormals": "inputs with denormal values",
    "infinities": "inputs with infinities",
    "minus_infinity": "inputs with -inf",
    "views": "inputs that are not contiguous",
    "offset": "inputs that start inside their storage",
}
_MAY_REFUSE = frozenset({"views", "offset", f"{ODD} sizes"})
"""A kernel may refuse a layout or a size, as long as it says so."""
MOST_ELEMENTS = 1 << 22
TELLING = ("spikes", "dips", "negative", "fixed", "heavy", "large")
"""Tried at the sizes of the trials as well: what these do not show is rare."""
_ALONG = ("spikes", "dips", "heavy")
"""Tried at the task's own size of one dimension: what is left out of a long sum shows."""
_FEW_LANES = 3
"""So many of those that tell most are tried where each run is long."""
_FINITE = (0x20, 0x7C)
"""Bytes of which floats of every width are finite and positive."""
_MODE_TIMEOUT_S = 15.0
_MOST_LOST = 3
"""So many lanes may end a process before the rest is left out."""


def work_probes(
    case: Case,
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    draw: random.Random,
) -> Verdict | None:
    """Probes that decide; None when the candidate does its work, each time, in its kernels.

    Raises CandidateFailure.
    """
    with run.phase("probes"):
        last = few_changed(case, run, session, reference, draw)
        verdict = decide(run)
        if verdict is not None:
            return verdict
        if "failing" in case.bench.modes:
            fallback(case, run, session, reference, draw)
        if "no_kernels" in case.bench.modes:
            return without_kernels(case, run, session, reference, draw, last)
    return None


def few_changed(
    case: Case,
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    draw: random.Random,
) -> Expected:
    """The last inputs again with a few elements changed, in the same buffers (exploits 12 to 14).

    One of the runs in which operators are recorded in all threads, too. Fresh memory has another
    pattern than in all other runs, for a kernel can write where it finds NaN alone (exploit 21).
    """
    fresh = draw.randrange(*_FINITE)
    ask = Ask(stress="few", every_thread="every_thread" in case.bench.modes, fresh=fresh)
    pair = run_pair(run, session, reference, case.options, draw, ask)
    assert pair is not None
    judgement = pair.judgement
    run.trials.append(_trial("a few elements changed", judgement))
    run.flags.extend(judgement.flags)
    run.judgement = judgement if not judgement.ok else run.judgement.joined(judgement)
    return pair.expected


def fallback(
    case: Case,
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    draw: random.Random,
) -> None:
    """Every compiled function raises: what answers all the same has another way (exploit 6)."""
    ask = Ask(mode="failing", timeout_s=_MODE_TIMEOUT_S)
    aside = Run(target="", seed=run.seed)
    try:
        pair = run_pair(aside, session, reference, case.options, draw, ask)
    except CandidateFailure:
        return
    if pair is not None:
        right = "the right" if pair.judgement.kind is None else "wrong"
        how = f" ({pair.judgement.illegal})" if pair.judgement.illegal else ""
        run.flags.append(f"fallback: with its extension failing it returned {right} values{how}")


def without_kernels(
    case: Case,
    run: Run,
    session: CandidateSession,
    reference: ReferenceSession,
    draw: random.Random,
    before: Expected,
) -> Verdict | None:
    """Its launches do nothing: right values were made elsewhere (exploits 4, 5, 11 and 28).

    Says nothing of a task whose output is nothing, or does not depend on its inputs.
    """
    ask = Ask(mode="no_kernels", timeout_s=_MODE_TIMEOUT_S)
    aside = Run(target="", seed=run.seed)
    try:
        construct(aside, session, reference, draw.getrandbits(48))
        pair = run_pair(aside, session, reference, case.options, draw, ask)
    except CandidateFailure as failure:
        run.flags.append(f"without its kernels it does not end as usual: {failure.message}")
        return None
    if pair is None:
        return None
    if session.ran_all_the_same:
        run.flags.append("launches: not all could be held back: who makes the output is open")
        return None
    rule = ToleranceRule(case.options.atol, case.options.rtol)
    alike = _agree(before, pair.expected, rule)
    if alike:
        run.flags.append("task: the output for other inputs would pass as well")
    if pair.judgement.kind is not None:
        return None
    if alike or void_outputs(pair.expected, rule):
        run.flags.append("task: whether its kernels make the output cannot be told")
        return None
    message = "its output is right without its kernels: all launches did nothing"
    return run.verdict(Status.ILLEGAL, message)


def _agree(one: Expected, other: Expected, rule: ToleranceRule) -> bool:
    """Whether the answer to other inputs would have passed as well."""
    return compare_all(one.native, other.native, other.exact, rule).kind is None


def _trial(name: str, judgement: Judgement) -> Trial:
    return Trial(name=name, passed=judgement.ok, worst=min(judgement.worst, 1e308))


LATER = "weights that are loaded later"


@dataclass
class Lanes:
    """Runs beyond the task's own inputs, in a process that is replaced when a lane ends it."""

    case: Case
    run: Run
    draw: random.Random
    ahead: Ahead
    session: CandidateSession | None = None
    lost: int = 0
    ready: ReferenceSession | None = None
    """The task and sizes that the process holds a module for."""
    opened: list[CandidateSession] = field(default_factory=list)

    def close(self) -> None:
        for session in self.opened:
            session.close()

    def problem(self, name: str, reference: ReferenceSession, ask: Ask) -> str:
        """What is wrong on this lane, '' where nothing is, or the op is not defined there."""
        if self.lost > _MOST_LOST:
            return ""
        aside = Run(target="", seed=self.run.seed)
        judgement: Judgement | None = None
        try:
            pair = self._pair(aside, reference, ask)
            if pair is None or not defined(pair.expected, name):
                return ""
            judgement = pair.judgement
            message = judgement.message
        except TaskError:
            return ""  # the reference itself refuses it
        except CandidateFailure as failure:
            self._recover(failure)
            if name == "offset" or not self._reference_answers(reference, name):
                return ""  # misaligned vectors are loud on a device
            if name in _MAY_REFUSE and failure.raised:
                self.run.probes.append(Trial(name=f"{name}: refused", passed=False))
                return ""
            message = failure.message
        passed = judgement is not None and judgement.kind is None
        worst = min(judgement.worst, 1e308) if judgement is not None else 1e308
        self.run.probes.append(Trial(name=name, passed=passed, worst=worst))
        return "" if passed else message

    def _pair(self, aside: Run, reference: ReferenceSession, ask: Ask) -> Pair | None:
        session = self._session()
        if self.ready is not reference:
            construct(aside, session, reference, self.draw.getrandbits(48))
            self.ready = reference
        # Recorded as the trials are: a candidate can tell whether it is.
        ask = replace(ask, every_thread="every_thread" in self.case.bench.modes)
        return run_pair(aside, session, reference, self.case.options, self.draw, ask)

    def _session(self) -> CandidateSession:
        if self.session is None:
            self.session = self.ahead.take()
            self.opened.append(self.session)
        return self.session

    def _recover(self, failure: CandidateFailure) -> None:
        """An exception leaves the process as it was; after anything else it is of no use.

        A device that failed refuses what comes next, and a finding would be told of the next lane.
        """
        self.ready = None
        found = self.session.evidence.findings if self.session is not None else []
        failed = any(map(decisive, found)) or "CUDA error" in failure.message
        if failed or not failure.raised:
            self.session = None
            self.lost += 1

    def _reference_answers(self, reference: ReferenceSession, name: str) -> bool:
        try:
            return defined(reference.expected(self.draw.getrandbits(48)), name)
        except TaskError:
            return False

    def kernels(self) -> frozenset[str]:
        """What ran in any lane."""
        seen = [launch for s in self.opened for launch in s.evidence.launches.values()]
        return plain_names(launch.kernel for launch in seen)

    # ---- the lanes

    def stress(self, reference: ReferenceSession, names: Iterable[str] = STRESS) -> None:
        """Inputs that the task does not draw (exploits 42, 43, 46 to 50); failures are flags."""
        for name in names:
            if name in ("offset", "integers") and name not in self.case.bench.modes:
                continue
            if name == "minus_infinity" and self._tried("infinities"):
                continue  # where both signs are defined, one is
            plain = name == "offset"
            ask = Ask(stress="" if plain else name, offset=plain)
            self._flag(STRESS[name], self.problem(name, reference, ask))

    def as_in_trials(self, reference: ReferenceSession) -> None:
        """Stress and weights at the sizes of the trials, in a drawn order, in a new process.

        What goes another way at smaller sizes, or after some calls, goes the way of the trials.
        """
        first, _ = self.order()
        if elements_of(reference) > MOST_ELEMENTS:
            first = first[:_FEW_LANES]
        steps = [partial(self.stress, reference, first), partial(self.weights, reference)]
        for step in self.draw.sample(steps, len(steps)):
            step()

    def order(self) -> tuple[list[str], list[str]]:
        """The most telling lanes and the rest, in no order that a candidate knows."""
        last = ["minus_infinity", "offset"]
        rest = [name for name in STRESS if name not in (*TELLING, *last)]
        first = self.draw.sample(TELLING, len(TELLING))
        return first, [*self.draw.sample(rest, len(rest)), *last]

    def _tried(self, name: str) -> bool:
        return any(probe.name == name for probe in self.run.probes)

    def weights(self, reference: ReferenceSession) -> None:
        """Weights that change after the first call (exploits 19, 45 and 53)."""
        problem = self.problem("as constructed", reference, Ask())
        self._flag("the task's own inputs, constructed once more", problem)
        if problem or self.ready is not reference:
            return
        sent = reference.restate(self.draw.getrandbits(48))
        if sent is None or self.session is None:
            return
        header = {"op": "restate", "tensors": sent.metas, "state_names": sent.state_names}
        try:
            answer, _ = self.session.request(header, sent.blobs, doing="load other weights")
        except CandidateFailure as failure:
            self._recover(failure)
            self._flag(LATER, failure.message)
            return
        if answer.get("loaded"):
            self._flag(LATER, self.problem("other weights", reference, Ask()))
        elif not any(flag.startswith("weights: differs") for flag in self.run.flags):
            problem = "its state_dict takes no other weights: it has none of those names and shapes"
            self._flag(LATER, problem)
        self.ready = None

    def _flag(self, words: str, problem: str) -> None:
        """Once: the same at other sizes says nothing new."""
        start = f"specialised: {words}: "
        if problem and not any(flag.startswith(start) for flag in self.run.flags):
            self.run.flags.append(start + problem)

    def sizes(self) -> Verdict | None:
        """Odd sizes (exploit 43: a flag), and the task's own in one dimension (41: it decides)."""
        for lane in LANES:
            reference = self.case.bench.other_sizes(self.case.task, lane)
            if reference is None:
                continue
            try:
                problem = self.problem(f"{lane} sizes", reference, Ask())
                shapes = ", ".join(reference.shapes)
                if lane in OWN and not problem:
                    self.stress(reference, _ALONG)
            finally:
                self.case.bench.release(reference)
            if lane == ODD:
                self._flag(f"odd sizes ({shapes})", problem)
            elif problem and lane in OWN:
                message = f"at the task's own size in one dimension ({shapes}): {problem}"
                return _wrong(self.run, message)
        return None


def _wrong(run: Run, message: str) -> Verdict:
    run.judgement = Judgement(kind=MismatchKind.NUMERIC, message=message, worst=float("inf"))
    return run.verdict(Status.MISMATCH, message)


def reach_probes(
    case: Case,
    run: Run,
    reference: ReferenceSession,
    draw: random.Random,
    ahead: Ahead,
    untried: frozenset[str] = frozenset(),
) -> Verdict | None:
    """How far it goes: other inputs, weights and sizes, in a process that ran no trial.

    `untried`: kernels of the task's own sizes that no trial launched (exploit 41).
    """
    lanes = Lanes(case, run, draw, ahead)
    try:
        with run.phase("lanes"):
            verdict = _reach(case, lanes, reference)
        if untried := untried - lanes.kernels():
            names = ", ".join(sorted(untried)[:3])
            run.flags.append(f"specialised: at the task's own sizes it launches {names}: never run")
        return verdict
    except InfraError as error:
        run.flags.append(f"not tried at other inputs and sizes: {error}")
        return None
    finally:
        lanes.close()


def _reach(case: Case, lanes: Lanes, reference: ReferenceSession) -> Verdict | None:
    large = bool(reference.overrides) or elements_of(reference) > MOST_ELEMENTS
    if large:
        lanes.as_in_trials(reference)
    small = case.bench.reference(case.task, "check") if large else reference
    scaled = small is not reference
    try:
        problem = lanes.problem("smaller sizes", small, Ask()) if scaled else ""
        if problem:
            shapes = ", ".join(small.shapes)
            lanes.run.flags.append(f"specialised: at smaller sizes ({shapes}): {problem}")
        elif elements_of(small) <= MOST_ELEMENTS:
            lanes.weights(small)
            lanes.stress(small, itertools.chain(*lanes.order()))
    finally:
        if scaled:
            case.bench.release(small)
    return lanes.sizes()


def elements_of(reference: ReferenceSession) -> int:
    """Of all inputs, read off `float32[64, 1000]`."""
    shapes = [s.partition("[")[2].rstrip("]") for s in reference.shapes]
    return sum(int(np.prod([int(n) for n in s.split(",") if n.strip()])) for s in shapes)
