"""A run as a conversation, and making it short enough for the context window.

Earlier thinking is dropped. Where it is still too long, the oldest rounds lose their code first,
then go altogether; the task and the newest round stay to the end.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from musaagent.policies.policy import PolicyRequest, TurnRecord
from musaagent.policies.prompting import feedback_prompt, task_prompt
from musaagent.policies.settings import ServedSettings

Message = dict[str, str]
Count = Callable[[Sequence[Message]], Awaitable[int]]

_CLIPPED_LINES = 12
"""Lines that stay of a long text, at its head and at its tail."""


@dataclass(frozen=True)
class Round:
    """One answer and what was said to it."""

    number: int
    answer: str
    feedback: str
    outcome: str
    shortened: bool = False

    def messages(self) -> tuple[Message, Message]:
        answer = self.answer
        if self.shortened:
            answer = f"[the code of round {self.number} is left out; it ended with: {self.outcome}]"
        return {"role": "assistant", "content": answer}, {"role": "user", "content": self.feedback}


@dataclass(frozen=True)
class Conversation:
    task: str
    rounds: tuple[Round, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def messages(self) -> list[Message]:
        answered = [message for item in self.rounds for message in item.messages()]
        return [{"role": "user", "content": self.task}, *answered]


def conversation(request: PolicyRequest, settings: ServedSettings) -> Conversation:
    """Every round so far, whole. The feedback to the newest answer is the request's own."""
    rounds = []
    records = request.history
    for index, record in enumerate(records):
        newest = index == len(records) - 1
        phase, said = request.phase, request.feedback
        if not newest:
            phase, said = records[index + 1].phase, records[index + 1].feedback
        rounds.append(
            Round(
                number=record.turn,
                answer=visible_answer(record),
                feedback=feedback_prompt(record.turn, phase, said),
                outcome=_outcome(record),
            )
        )
    return Conversation(task_prompt(request, settings), tuple(rounds))


def visible_answer(record: TurnRecord) -> str:
    """The answer as history shows it: without its thinking and its end marks."""
    if "<think>" in record.answer and "</think>" not in record.answer:
        return "[the answer ended inside its thinking]"
    text = record.answer.rpartition("</think>")[2].strip()
    for mark in ("<|im_end|>", "<|endoftext|>", "</s>"):
        text = text.removesuffix(mark).rstrip()
    if not text and record.candidate:
        text = f"```python\n{record.candidate}```"
    return text or "[the answer was empty]"


async def fit(whole: Conversation, limit: int, count: Count) -> tuple[Conversation, int]:
    """The longest form that has at most `limit` tokens, and its count; the shortest if none has."""
    form, tokens = whole, 0
    for form in (whole, *_shorter_forms(whole)):
        tokens = await count(form.messages)
        if tokens <= limit:
            break
    return form, tokens


def _shorter_forms(whole: Conversation) -> list[Conversation]:
    """Each shorter than the one before."""
    forms = []
    rounds = list(whole.rounds)
    for index in range(len(rounds) - 1):
        rounds[index] = replace(
            rounds[index], shortened=True, feedback=clip(rounds[index].feedback)
        )
        remark = f"history: the code of {index + 1} earlier rounds was left out"
        forms.append(Conversation(whole.task, tuple(rounds), (remark,)))
    for gone in range(1, len(rounds)):
        remark = f"history: {gone} earlier rounds were left out"
        forms.append(Conversation(whole.task, tuple(rounds[gone:]), (remark,)))
    if rounds:
        last = replace(rounds[-1], feedback=clip(rounds[-1].feedback))
        remark = "history: only the newest round was kept, its feedback shortened"
        forms.append(Conversation(whole.task, (last,), (remark,)))
    return forms


def clip(text: str) -> str:
    """Head and tail of a long text; lines that are endless are cut too."""
    lines = [line if len(line) <= 400 else line[:400] + " ..." for line in text.split("\n")]
    if len(lines) <= 2 * _CLIPPED_LINES:
        return "\n".join(lines)
    gone = len(lines) - 2 * _CLIPPED_LINES
    marked = [*lines[:_CLIPPED_LINES], f"[{gone} lines left out]", *lines[-_CLIPPED_LINES:]]
    return "\n".join(marked)


def _outcome(record: TurnRecord) -> str:
    if record.verdict is None:
        return "no verdict"
    return f"{record.verdict.status}: {record.verdict.message}".rstrip(": ")[:300]


def estimated_tokens(messages: Sequence[Message]) -> int:
    """For servers that do not count: code has about 3 bytes a token, and a message some frame."""
    return sum(len(message["content"].encode()) // 3 + 8 for message in messages) + 8
