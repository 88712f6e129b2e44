"""The policy of a served model: MusaCoder on vLLM, or any OpenAI-compatible endpoint."""

from collections.abc import Sequence
from typing import Any

from musaagent.errors import PolicyUnavailable
from musaagent.policies.background import BackgroundLoop
from musaagent.policies.client import ModelClient
from musaagent.policies.history import Count, Message, conversation, estimated_tokens, fit
from musaagent.policies.policy import Live, PolicyAnswer, PolicyRequest
from musaagent.policies.prompting import dialect_of, profile_of, render
from musaagent.policies.settings import DEFAULT_CONTEXT, ServedSettings
from musaagent.tools.candidate import content_hash

LEAST_ANSWER = 512
"""Tokens below which no kernel fits, and no request is made."""


class ServedPolicy:
    """Asks a model, turn by turn. Threads may call it side by side; their requests run together."""

    name = "served"

    def __init__(self, settings: ServedSettings, live: Live | None = None) -> None:
        self.settings = settings
        self._live = live
        self._client = ModelClient(settings)
        self._loop = BackgroundLoop()
        self._window: int | None = settings.context
        self._window_remark = ""

    def propose(self, request: PolicyRequest) -> PolicyAnswer:
        """Raises PolicyUnavailable."""
        return self._loop.run(self._propose(request))

    def describe(self, description: str, fault: str, seed: int) -> PolicyAnswer:
        """The answer to a request for a reference. Raises PolicyUnavailable."""
        prompt = render("describe.jinja", description=description, fault=fault)
        return self._loop.run(self._describe(prompt, content_hash(f"{description}/{seed}")))

    def check(self) -> None:
        """Raises PolicyUnavailable where no answer can be had, before anything else is begun."""
        self._loop.run(self._client.check())

    def close(self) -> None:
        self._loop.close(self._client.close())

    async def _describe(self, prompt: str, seed: str) -> PolicyAnswer:
        messages, counted = [{"role": "user", "content": prompt}], _Counted(self._client)
        tokens = await counted(messages)
        expect_room(tokens, await self._context(), self.settings)
        return await self._complete(messages, counted.remarks, seed, tokens)

    async def _propose(self, request: PolicyRequest) -> PolicyAnswer:
        window = await self._context()
        counted = _Counted(self._client)
        messages, remarks = await fitted(request, self.settings, window, counted)
        marks = (*remarks, *counted.remarks)
        answer = await self._complete(messages, marks, seed_text(request), counted.last)
        state = {
            "profile": profile_of(self.settings),
            "dialect": dialect_of(self.settings, request.target),
        }
        return answer.model_copy(update={"policy_state": {**answer.policy_state, **state}})

    async def _complete(
        self, messages: Sequence[Message], remarks: Sequence[str], seed: str, tokens: int
    ) -> PolicyAnswer:
        sampling = sampling_fields(self.settings, await self._context(), tokens, seed)
        answer = await self._client.complete(messages, sampling, self._live)
        notes = [self._window_remark] if self._window_remark else []
        return answer.model_copy(update={"remarks": (*notes, *remarks, *answer.remarks)})

    async def _context(self) -> int:
        if self._window is None:
            stated = await self._client.context()
            self._window = stated or DEFAULT_CONTEXT
            if stated is None:
                self._window_remark = (
                    f"the server states no context window; {DEFAULT_CONTEXT} tokens are assumed"
                )
        return self._window


class _Counted:
    """Counts with the server's tokenizer, else by estimate, and says which."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self.remarks: tuple[str, ...] = ()
        self.last = 0

    async def __call__(self, messages: Sequence[Message]) -> int:
        counted = await self._client.count(messages)
        if counted is None:
            self.remarks = ("prompt tokens were estimated: the server has no /tokenize",)
        self.last = counted if counted is not None else estimated_tokens(messages)
        return self.last


async def fitted(
    request: PolicyRequest, settings: ServedSettings, window: int, count: Count
) -> tuple[list[Message], tuple[str, ...]]:
    """The conversation, short enough to leave room for an answer. Raises PolicyUnavailable.

    Half of the window at least is the history's; an answer takes what is left, up to max_tokens.
    """
    limit = max(window - settings.max_tokens, window // 2)
    chosen, tokens = await fit(conversation(request, settings), limit, count)
    expect_room(tokens, window, settings)
    return chosen.messages, chosen.remarks


def expect_room(tokens: int, window: int, settings: ServedSettings) -> None:
    """Raises PolicyUnavailable where a prompt leaves too little of the window for an answer."""
    if tokens > window - LEAST_ANSWER:
        raise PolicyUnavailable(
            f"model {settings.model}: the prompt takes {tokens} of {window} tokens and leaves no "
            "room for an answer; serve it with a larger context (or give --context)"
        )


def sampling_fields(
    settings: ServedSettings, window: int, tokens: int, seed: str
) -> dict[str, Any]:
    """What is sent beside the messages. The seed is the turn's own: samples must differ."""
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": max(min(settings.max_tokens, window - tokens), 1),
        "seed": int(seed[:8], 16) % 2**31,
    }


def seed_text(request: PolicyRequest) -> str:
    return content_hash(f"{request.plan.task}/{request.seed}/{request.turn}")
