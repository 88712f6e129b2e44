"""Over real HTTP: what comes whole is an answer, what fails is retried or named, no key leaks."""

import threading
import time
from typing import Any

import pytest

from musaagent.errors import PolicyUnavailable
from musaagent.policies.client import retry_after_s
from musaagent.policies.served import ServedPolicy
from musaagent.tools.extract import ExtractionError, extract

CODE = "```python\nclass ModelNew:\n    pass\n```\n"


def test_streamed_answer_with_ids_and_logprobs(server: Any, ask: Any) -> None:
    server.play({"kind": "answer", "text": f"<think>hm</think>{CODE}", "chunk": 5})
    answer = ask()
    assert answer.text == f"<think>hm</think>{CODE}"
    assert answer.prompt_token_ids == (1, 2, 3)
    assert answer.token_ids == tuple(range(len(answer.token_ids)))
    assert answer.logprobs == (-0.25,) * len(answer.token_ids)
    assert (answer.finish_reason, answer.model) == ("stop", "toy-model")
    assert answer.usage["prompt_tokens"] == 7
    assert answer.policy_state["system_fingerprint"] == "fp-7"
    assert answer.latency_s > 0
    assert answer.remarks == ("prompt tokens were estimated: the server has no /tokenize",)
    sent = server.requests()[0]["body"]
    assert sent["stream"] is True
    assert (sent["logprobs"], sent["top_logprobs"], sent["return_token_ids"]) == (True, 0, True)
    assert answer.sampling["seed"] == sent["seed"]
    assert [message["role"] for message in answer.messages] == ["user"]


def test_one_piece_answer(server: Any, ask: Any) -> None:
    server.play({"kind": "answer", "text": CODE, "reasoning": "so", "field": "reasoning_content"})
    answer = ask(stream=False)
    assert (answer.text, answer.reasoning) == (CODE, "so")
    assert answer.logprobs == (-0.5, -0.5)
    assert answer.policy_state["streamed"] is False
    assert "stream" not in server.requests()[0]["body"]


def test_reasoning_in_its_own_field(server: Any, ask: Any) -> None:
    server.play({"kind": "answer", "text": CODE, "reasoning": "long thought", "chunk": 3})
    answer = ask()
    assert (answer.text, answer.reasoning) == (CODE, "long thought")


def test_trace_says_what_the_server_did_not_give(server: Any, ask: Any) -> None:
    server.play({"kind": "answer", "text": CODE, "ids": False, "logprobs": False}, tokenize=3)
    answer = ask()
    assert (answer.token_ids, answer.logprobs) == (None, None)
    assert answer.remarks == (
        "the server gave no token ids",
        "the server gave no log-probabilities",
    )


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ({"kind": "status", "code": 500, "message": "engine"}, "HTTP 500: engine"),
        ({"kind": "status", "code": 503}, "HTTP 503"),
        ({"kind": "status", "code": 429, "retry_after": "0"}, "HTTP 429"),
        ({"kind": "answer", "text": CODE, "chunk": 4, "cut_after": 3}, "broke after 12 characters"),
        ({"kind": "stream_error"}, "engine died"),
    ],
)
def test_transport_failures_are_tried_again(failure: Any, said: str, server: Any, ask: Any) -> None:
    server.play(failure, failure, {"kind": "answer", "text": CODE})
    answer = ask()
    assert answer.text == CODE
    assert [line["request"] for line in server.requests()] == [0, 1, 2]
    told = [remark for remark in answer.remarks if remark.startswith("attempt")]
    assert len(told) == 2
    assert said in told[0]


def test_retry_after_is_kept(server: Any, ask: Any) -> None:
    wait = {"kind": "status", "code": 429, "retry_after": "1"}
    server.play(wait, {"kind": "answer", "text": CODE})
    start = time.monotonic()
    ask()
    assert time.monotonic() - start >= 1.0


def test_retry_after_forms() -> None:
    assert retry_after_s("7") == 7.0
    assert retry_after_s("-3") == 0.0
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after_s("soon") is None
    assert retry_after_s(None) is None


def test_it_gives_up_after_the_last_attempt(server: Any, ask: Any) -> None:
    server.play({"kind": "status", "code": 502, "message": "bad gateway"})
    with pytest.raises(PolicyUnavailable, match=r"toy-model at http.*HTTP 502: bad gateway"):
        ask(attempts=3)
    assert len(server.requests()) == 3


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ({"kind": "status", "code": 400, "message": "prompt is too long"}, "prompt is too long"),
        ({"kind": "status", "code": 401, "message": "Bad KEY"}, r"the key in \$OPENAI_API_KEY was"),
        ({"kind": "status", "code": 404, "message": "no such model"}, "no such model"),
        ({"kind": "status", "code": 422, "message": "wrong KEY"}, r"HTTP 422: wrong Bearer \*\*\*"),
        ({"kind": "no_choices"}, "no choices"),
        ({"kind": "bad_json"}, "does --base-url end in /v1"),
        ({"kind": "html"}, "does --base-url end in /v1"),
        ({"kind": "stream_error", "code": 400}, "engine died"),
    ],
)
def test_what_another_try_would_not_mend(failure: Any, said: str, server: Any, ask: Any) -> None:
    server.play(failure)
    with pytest.raises(PolicyUnavailable, match=said) as caught:
        ask()
    assert len(server.requests()) == 1
    assert "sk-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_server_at_all(server: Any, ask: Any) -> None:
    server.stop()
    with pytest.raises(PolicyUnavailable, match="cannot connect"):
        ask(attempts=2, context=40960)


def test_silence_is_a_timeout(server: Any, ask: Any) -> None:
    server.play({"kind": "silence", "seconds": 2.0}, {"kind": "answer", "text": CODE})
    answer = ask(timeout_s=0.3)
    assert answer.text == CODE
    assert any("no answer in 0.3 s" in remark for remark in answer.remarks)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["return_token_ids"], "Unrecognized request argument supplied: {}"),
        (["return_token_ids", "logprobs"], "'{}' is not supported by this model"),
        (["top_logprobs"], "{} must be at least 1"),
        (["stream_options"], "extra field {} not permitted"),
    ],
)
def test_fields_that_a_server_refuses_are_given_up(
    fields: list[str], message: str, server: Any, ask: Any
) -> None:
    refuse = {"kind": "refuse", "fields": fields, "message": message, "text": CODE}
    server.play(refuse)
    answer = ask()
    assert answer.text == CODE
    assert len(server.requests()) == len(fields) + 1
    for name in fields:
        assert f"the server does not take {name}" in answer.remarks
        assert name not in answer.sampling


def test_newer_name_of_max_tokens(server: Any, ask: Any) -> None:
    message = "Unsupported parameter: '{}'. Use 'max_completion_tokens' instead."
    refuse = {"kind": "refuse", "fields": ["max_tokens"], "message": message, "text": CODE}
    server.play(refuse)
    answer = ask(max_tokens=100)
    assert answer.text == CODE
    assert server.requests()[-1]["body"]["max_completion_tokens"] == 100


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ({"kind": "answer", "text": ""}, "empty"),
        ({"kind": "answer", "text": "<think>and so"}, "unfinished_thinking"),
        ({"kind": "answer", "text": "<think>and so", "finish": "length"}, "cut_off"),
        ({"kind": "answer", "text": "", "reasoning": "hm", "finish": "length"}, "cut_off"),
        ({"kind": "answer", "text": CODE[:-5], "finish": "length"}, "cut_off"),
        ({"kind": "answer", "text": f"{CODE}\n```python\nx =", "finish": "length"}, "cut_off"),
        ({"kind": "answer", "text": "I cannot."}, "no_code"),
        ({"kind": "answer", "text": "```python\nclass Model: pass\n```"}, "no_model_new"),
        ({"kind": "answer", "text": "```python\nclass ModelNew(:\n```"}, "syntax"),
        ({"kind": "tool_call"}, "tool_call"),
        ({"kind": "answer", "text": '<tool_call>{"name": "f"}</tool_call>'}, "tool_call"),
        ({"kind": "answer", "text": CODE.replace("pass", f"x = '{'y' * 200_000}'")}, "too_long"),
    ],
)
def test_bad_answers_are_typed_and_not_asked_again(
    reply: Any, fault: str, server: Any, ask: Any
) -> None:
    server.play(reply | {"chunk": 8000})
    answer = ask()
    found = extract(answer.text, None, answer.finish_reason)
    assert isinstance(found, ExtractionError)
    assert found.fault == fault
    assert len(server.requests()) == 1


def test_two_blocks_and_long_thinking_are_fine(server: Any, ask: Any) -> None:
    last = CODE.replace("pass", "x = 2")
    server.play(
        {"kind": "answer", "text": f"<think>{'y' * 300_000}</think>{CODE}\n{last}", "chunk": 50_000}
    )
    answer = ask()
    found = extract(answer.text, None, answer.finish_reason)
    assert not isinstance(found, ExtractionError)
    assert "x = 2" in found.source


def test_live_view_sees_thinking_then_answer(server: Any, ask: Any) -> None:
    seen: list[Any] = []
    text = f"<think>{'t' * 40}</think>{CODE}"
    server.play({"kind": "answer", "text": text, "chunk": 10, "delay": 0.06})
    ask(live=seen.append)
    assert seen[0].thinking > 0
    assert seen[0].answering == 0
    assert seen[-1].answering > 0
    assert [p.seconds for p in seen] == sorted(p.seconds for p in seen)


def test_turns_run_side_by_side(server: Any, request_of: Any) -> None:
    server.play({"kind": "answer", "text": CODE, "chunk": 4, "delay": 0.05})
    policy = ServedPolicy(server.settings())
    took: list[float] = []

    def one() -> None:
        start = time.monotonic()
        assert policy.propose(request_of()).text == CODE
        took.append(time.monotonic() - start)

    start = time.monotonic()
    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    policy.close()
    assert len(took) == 6
    assert time.monotonic() - start < 0.8 * sum(took)


def test_close_cancels_what_is_under_way(server: Any, request_of: Any) -> None:
    server.play({"kind": "answer", "text": CODE * 50, "chunk": 2, "delay": 0.05})
    policy = ServedPolicy(server.settings())
    failures: list[Exception] = []

    def one() -> None:
        try:
            policy.propose(request_of())
        except PolicyUnavailable as error:
            failures.append(error)

    thread = threading.Thread(target=one)
    thread.start()
    while not server.requests():
        time.sleep(0.02)
    time.sleep(0.2)
    start = time.monotonic()
    policy.close()
    thread.join(10)
    assert time.monotonic() - start < 5
    assert len(failures) == 1
    deadline = time.monotonic() + 10
    while not any("gone" in line for line in server.lines()):
        assert time.monotonic() < deadline, "the server still writes"
        time.sleep(0.05)
