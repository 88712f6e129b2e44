"""A candidate's next process, started while the one before it is at work."""

from concurrent.futures import Future

from musaagent.tools.gathered import Run
from musaagent.tools.session import CandidateSession
from musaagent.tools.steps import Case, import_candidate


class Ahead:
    """One session with the candidate imported. Whoever makes it must call `close`."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._opening: Future[CandidateSession] | None = None
        self._kept: list[CandidateSession] = []

    def start(self) -> None:
        """Open it behind the caller's back; a second call does nothing."""
        if self._opening is None:
            self._opening = self._case.bench.submit(self._open, warm=True)

    def take(self) -> CandidateSession:
        """The session, once; the caller closes it. Raises CandidateFailure, as opening it does."""
        opening, self._opening = self._opening, None
        if opening is None or opening.cancel():
            return self._open()
        return opening.result()

    def replacement(self) -> CandidateSession:
        """As `take`, for a process that was lost; it is closed with all that is here."""
        self._kept.append(self.take())
        return self._kept[-1]

    def close(self) -> None:
        """What nobody took is closed as soon as it is open."""
        for session in self._kept:
            session.close()
        opening, self._opening = self._opening, None
        if opening is not None and not opening.cancel():
            opening.add_done_callback(_close)

    def _open(self, *, warm: bool = False) -> CandidateSession:
        session = self._case.bench.open_candidate(self._case.options, checked=False)
        try:
            import_candidate(Run(target="", seed=0), session, self._case.candidate)
            if warm:
                session.request({"op": "warm"}, doing="start")
        except BaseException:
            session.close()
            raise
        return session


def _close(opening: "Future[CandidateSession]") -> None:
    if opening.exception() is None:
        opening.result().close()
