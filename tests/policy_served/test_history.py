"""Prompts are strict and profiled; history keeps the task and the newest round to the end."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from musaagent.errors import PolicyUnavailable
from musaagent.policies.history import clip, conversation, estimated_tokens, fit
from musaagent.policies.prompting import profile_of, render, task_prompt
from musaagent.policies.served import fitted, sampling_fields
from musaagent.policies.settings import ServedSettings

MUSACODER = ServedSettings(model="MooreThreads/MusaCoder-27B", base_url="http://h/v1")
GENERAL = MUSACODER.model_copy(update={"model": "other"})


def test_render_is_strict() -> None:
    with pytest.raises(ValueError, match="needs"):
        render("feedback.jinja", round=1, phase="repair")
    with pytest.raises(ValueError, match="got"):
        render("feedback.jinja", round=1, phase="repair", feedback="x", more=1)


def test_sources_are_not_rendered_again(request_of: Any) -> None:
    prompt = task_prompt(request_of(task_source="x = '{{ reference }} {% raw %}'\n"), MUSACODER)
    assert "x = '{{ reference }} {% raw %}'" in prompt


def test_profile_follows_the_model() -> None:
    assert profile_of(MUSACODER) == "musacoder"
    assert profile_of(GENERAL) == "general"
    assert profile_of(GENERAL.model_copy(update={"profile": "musacoder"})) == "musacoder"


def test_musacoder_gets_the_contract_it_was_trained_on(request_of: Any) -> None:
    prompt = task_prompt(request_of(), MUSACODER)
    for part in (
        "TOTAL CONVERSION",
        "load_inline",
        "MUST take the same arguments and keep",
        "`self.conv.weight`",
        "add_kernel",
    ):
        assert part in prompt
    assert "norm.weight" not in prompt  # no shape block
    assert "Think first" not in prompt
    assert prompt.count("class Model(nn.Module)") == 1


def test_general_gets_the_facts(request_of: Any) -> None:
    prompt = task_prompt(request_of(), GENERAL)
    assert "input `x`: shape [16, 100], stride [100, 1], dtype float32" in prompt
    assert "parameter `norm.weight`" in prompt
    assert "mind: BatchNorm runs in train mode" in prompt
    assert "zeros would pass" not in prompt  # no help for cheats
    assert "a warp has 32 lanes" in prompt


@pytest.mark.parametrize("settings", [MUSACODER, GENERAL])
def test_musa_variants(settings: ServedSettings, request_of: Any) -> None:
    prompt = task_prompt(request_of(target="musa", warp_size=128), settings)
    assert "torch_musa.utils.musa_extension" in prompt
    assert "musa_sources=" in prompt
    assert "128 lanes" in prompt
    assert "cuda_sources" not in prompt
    cuda = task_prompt(request_of(target="host"), settings.model_copy(update={"dialect": "musa"}))
    assert "musa_sources=" in cuda


def test_rounds_become_messages(request_of: Any, turn_of: Any) -> None:
    turns = (
        turn_of(1, "<think>secret</think>first<|im_end|>"),
        turn_of(2, "<think>never ends", "feedback one"),
    )
    messages = conversation(request_of(*turns), MUSACODER).messages
    assert [m["role"] for m in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"] == "first"
    assert "feedback one" in messages[2]["content"]
    assert messages[2]["content"].startswith("=== System Feedback for Round 1 ===")
    assert messages[3]["content"] == "[the answer ended inside its thinking]"
    assert messages[4]["content"].startswith("=== System Feedback for Round 2 ===")
    assert "the newest feedback" in messages[4]["content"]


async def count(messages: Sequence[dict[str, str]]) -> int:
    return sum(len(message["content"]) for message in messages)


def test_history_is_shortened_oldest_first(request_of: Any, turn_of: Any) -> None:
    turns = [
        turn_of(n, f"code {n} " * 2000, f"feedback {n - 1}" if n > 1 else "") for n in (1, 2, 3)
    ]
    whole = conversation(request_of(*turns), MUSACODER)
    full = asyncio.run(count(whole.messages))
    seen = []
    for limit in (full, full - 1, full - 20_000, full - 35_000, 100):
        chosen, tokens = asyncio.run(fit(whole, limit, count))
        text = str(chosen.messages)
        seen.append([n for n in (1, 2, 3) if f"code {n} code {n}" in text])
        assert chosen.messages[0] == whole.messages[0]
        assert "the newest feedback" in text
        assert tokens == asyncio.run(count(chosen.messages))
    assert seen == [[1, 2, 3], [2, 3], [3], [3], [3]]
    shortened, _ = asyncio.run(fit(whole, full - 1, count))
    assert "[the code of round 1 is left out; it ended with: runtime_error: fault 1]" in str(
        shortened.messages
    )
    assert shortened.remarks == ("history: the code of 1 earlier rounds was left out",)


def test_too_long_a_task_is_our_failure(request_of: Any) -> None:
    with pytest.raises(PolicyUnavailable, match="leaves no room"):
        asyncio.run(fitted(request_of(task_source="x" * 9000), MUSACODER, 4096, count))


def test_answer_takes_what_the_prompt_leaves() -> None:
    assert sampling_fields(MUSACODER, 40960, 5000, "ff" * 8)["max_tokens"] == 32768
    assert sampling_fields(MUSACODER, 40960, 20000, "ff" * 8)["max_tokens"] == 20960


def test_estimate_counts_bytes() -> None:
    assert estimated_tokens([{"role": "user", "content": "abc" * 100}]) == 116


def test_clip_keeps_head_and_tail() -> None:
    clipped = clip("\n".join(f"line {n}" for n in range(100)))
    assert clipped.startswith("line 0\n")
    assert clipped.endswith("line 99")
    assert "[76 lines left out]" in clipped
    assert len(clip("x" * 5000)) < 500


def test_server_counts_and_states_its_window(
    server: Any, ask: Any, turn_of: Any, request_of: Any
) -> None:
    """A quarter of the characters is this server's count; its window is small."""
    server.play({"kind": "answer", "text": "x"}, context=5000, tokenize=4)
    request = request_of(turn_of(1, "a " * 3000), turn_of(2, "b " * 1500, "f"))
    answer = ask(request)
    sent = server.requests()[0]["body"]
    text = "".join(message["content"] for message in sent["messages"])
    assert "the code of 1 earlier rounds was left out" in str(answer.remarks)
    assert sent["max_tokens"] == 5000 - len(text) // 4
