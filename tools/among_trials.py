"""Inputs that the task does not draw, among the trials and in their process.

The process of the lanes (`probes`) can be told from that of the trials: by how long it waits
between import and construction, by what it built anew, by a lock on a file that both see. So a step
that the task's own inputs do not show (exploits 42, 45 and 46) could be left out in the one and
taken in the other.
"""

import random
from dataclasses import dataclass, field

from musaagent.errors import TaskError
from musaagent.tools.ahead import Ahead
from musaagent.tools.gathered import Run
from musaagent.tools.judge import defined
from musaagent.tools.probes import LATER, MOST_ELEMENTS, STRESS, TELLING, elements_of
from musaagent.tools.reference_session import ReferenceSession
from musaagent.tools.results import Trial
from musaagent.tools.session import CandidateFailure, CandidateSession
from musaagent.tools.steps import Ask, Case, run_pair

_WEIGHTS = "weights"
_LANES_OF_LARGE = 3


@dataclass
class AmongTrials:
    """The lanes that tell most and other weights, each after a drawn trial; failures are flags."""

    case: Case
    run: Run
    reference: ReferenceSession
    draw: random.Random
    ahead: Ahead
    after: dict[int, list[str]] = field(default_factory=dict)
    """Lanes by the number of the trial that they follow, which is not the last."""

    def __post_init__(self) -> None:
        options = self.case.options
        if not options.probes or self.run.scale == "large" or options.trials < 2:
            return
        names = [*TELLING, "integers"] if "integers" in self.case.bench.modes else [*TELLING]
        if elements_of(self.reference) > MOST_ELEMENTS:
            names = self.draw.sample(names, _LANES_OF_LARGE)
        for name in self.draw.sample(names, len(names)):
            self.after.setdefault(self.draw.randrange(options.trials - 1), []).append(name)
        # The trial behind it is one that constructs both modules.
        late = self.draw.randrange(max(options.trials - 3, 0), options.trials - 1)
        self.after.setdefault(late, []).append(_WEIGHTS)

    def follow(self, trial: int, session: CandidateSession) -> CandidateSession:
        """The session to go on with: another one, not constructed, where a lane ended this one."""
        with self.run.phase("among_trials"):
            return self._follow(trial, session)

    def _follow(self, trial: int, session: CandidateSession) -> CandidateSession:
        for name in self.after.get(trial, ()):
            found = len(session.evidence.findings)
            try:
                problem = self._problem(name, session)
            except CandidateFailure as failure:
                del session.evidence.findings[found:]
                self._flag(name, failure.message if self._defined(name) else "")
                return self.ahead.replacement()
            self._flag(name, problem)
        return session

    def _problem(self, name: str, session: CandidateSession) -> str:
        aside = Run(target="", seed=self.run.seed)
        deep = "every_thread" in self.case.bench.modes
        weights = name == _WEIGHTS
        if weights and not self._restated(session):
            return ""
        ask = Ask(stress="" if weights else name, every_thread=deep)
        options = self.case.options
        try:
            pair = run_pair(aside, session, self.reference, options, self.draw, ask)
        except TaskError:
            return ""  # the reference itself refuses it
        if pair is None or not defined(pair.expected, name):
            return ""
        judged = pair.judgement
        passed, worst = judged.kind is None, min(judged.worst, 1e308)
        self.run.probes.append(Trial(name=f"{name}, among the trials", passed=passed, worst=worst))
        return judged.message if not passed else ""

    def _restated(self, session: CandidateSession) -> bool:
        """Whether both have other weights; what it means that they cannot, `probes` tells."""
        sent = self.reference.restate(self.draw.getrandbits(48))
        if sent is None:
            return False
        header = {"op": "restate", "tensors": sent.metas, "state_names": sent.state_names}
        answer, _ = session.request(header, sent.blobs, doing="load other weights")
        return answer.get("loaded") is True

    def _defined(self, name: str) -> bool:
        try:
            return defined(self.reference.expected(self.draw.getrandbits(48)), name)
        except TaskError:
            return False

    def _flag(self, name: str, problem: str) -> None:
        if problem:
            words = LATER if name == _WEIGHTS else STRESS[name]
            self.run.flags.append(f"specialised: {words}: {problem}")
