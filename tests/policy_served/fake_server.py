"""A server that speaks OpenAI's protocol over real HTTP and does what a script says.

Run as a process: fake_server.py SCRIPT LOG. The script is JSON: `replies`, a list of behaviours, is
played in order of the requests, or by the turn of the conversation where `by_turn` is set; `context`
and `tokenize` say what the server states of itself, `refuses_key` that it states nothing. Every request is appended to LOG before it is
answered, and every answer that went out whole after it. The port is printed.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SCRIPT, LOG = Path(sys.argv[1]), Path(sys.argv[2])
LOCK = threading.Lock()
SEEN = 0


def note(**what: Any) -> None:
    with LOCK, LOG.open("a") as file:
        file.write(json.dumps(what) + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        script = json.loads(SCRIPT.read_text())
        if self.path == "/health":
            self.send(200, {})
        elif script.get("refuses_key"):
            self.send(401, {"error": {"message": "bad key"}})
        elif self.path == "/v1/models":
            model = {"id": "toy-model", "object": "model", "owned_by": "tests"}
            if script.get("context"):
                model["max_model_len"] = script["context"]
            self.send(200, {"object": "list", "data": [model]})
        else:
            self.send(404, {"error": {"message": "Not Found"}})

    def do_POST(self) -> None:
        global SEEN
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        script = json.loads(SCRIPT.read_text())
        if self.path == "/tokenize" and script.get("tokenize"):
            text = "".join(message["content"] for message in body["messages"])
            self.send(200, {"count": len(text) // script["tokenize"], "max_model_len": 1})
            return
        if self.path != "/v1/chat/completions":
            self.send(404, {"error": {"message": f"no {self.path}"}})
            return
        turn = sum(message["role"] == "user" for message in body["messages"])
        with LOCK:
            number, SEEN = SEEN, SEEN + 1
        note(request=number, turn=turn, body=body, key=self.headers.get("Authorization"))
        replies = script["replies"]
        reply = replies[min(turn - 1 if script.get("by_turn") else number, len(replies) - 1)]
        try:
            getattr(self, f"play_{reply['kind']}")(body, reply)
            note(done=number, turn=turn, kind=reply["kind"])
        except (BrokenPipeError, ConnectionResetError):
            note(gone=number, turn=turn)
            self.close_connection = True

    # ---- behaviours

    def play_answer(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        text, reasoning = reply.get("text", ""), reply.get("reasoning", "")
        finish = reply.get("finish", "stop")
        size, field = reply.get("chunk", 64), reply.get("field", "reasoning")
        pieces = [(field, reasoning[i : i + size]) for i in range(0, len(reasoning), size)]
        pieces += [("content", text[i : i + size]) for i in range(0, len(text), size)]
        ids = body.get("return_token_ids") and reply.get("ids", True)
        probabilities = body.get("logprobs") and reply.get("logprobs", True)
        usage = {"prompt_tokens": 7, "completion_tokens": len(pieces), "total_tokens": 9}
        if not body.get("stream"):
            choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
            choice["message"] = {"role": "assistant", "content": text, field: reasoning}
            if ids:
                choice["token_ids"] = list(range(len(pieces)))
            if probabilities:
                choice["logprobs"] = {"content": [{"token": "t", "logprob": -0.5}] * len(pieces)}
            whole = self.envelope("chat.completion", [choice]) | {"usage": usage}
            self.send(200, whole | ({"prompt_token_ids": [1, 2, 3]} if ids else {}))
            return
        self.begin_stream()
        first = self.envelope(
            "chat.completion.chunk", [{"index": 0, "delta": {"role": "assistant"}}]
        )
        self.event(first | ({"prompt_token_ids": [1, 2, 3]} if ids else {}))
        for number, (name, piece) in enumerate(pieces):
            if number == reply.get("cut_after", -1):
                # A chunk that promises more than it brings: the connection ends inside it.
                self.wfile.write(b"400\r\ndata: {")
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()
                return
            choice = {"index": 0, "delta": {name: piece}}
            if ids:
                choice["token_ids"] = [number]
            if probabilities:
                choice["logprobs"] = {"content": [{"token": piece, "logprob": -0.25}]}
            self.event(self.envelope("chat.completion.chunk", [choice]))
            time.sleep(reply.get("delay", 0.0))
        last = {"index": 0, "delta": {}, "finish_reason": finish}
        self.event(self.envelope("chat.completion.chunk", [last]))
        self.event(self.envelope("chat.completion.chunk", []) | {"usage": usage})
        self.end_stream()

    def play_status(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        headers = {"Retry-After": reply["retry_after"]} if "retry_after" in reply else {}
        message = reply.get("message", "no").replace("KEY", str(self.headers.get("Authorization")))
        error = {"error": {"message": message, "param": reply.get("param")}}
        self.send(reply["code"], error, headers)

    def play_refuse(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        """400 for a field while it is there, then the answer."""
        for name in reply["fields"]:
            if name in body:
                text = reply.get("message", "Unrecognized request argument supplied: {}")
                self.send(400, {"error": {"message": text.format(name)}})
                return
        self.play_answer(body, reply)

    def play_tool_call(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        call = {"index": 0, "id": "c", "type": "function"}
        call["function"] = {"name": "write_file", "arguments": '{"code": "class ModelNew: pass"}'}
        self.begin_stream()
        for delta, finish in (({"tool_calls": [call]}, None), ({}, "tool_calls")):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            self.event(self.envelope("chat.completion.chunk", [choice]))
        self.end_stream()

    def play_no_choices(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        self.begin_stream()
        self.event(self.envelope("chat.completion.chunk", []))
        self.end_stream()

    def play_bad_json(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        self.begin_stream()
        self.chunk(b'data: {"choices": [\n\n')
        self.end_stream()

    def play_stream_error(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        self.begin_stream()
        self.event({"error": {"message": "engine died", "code": reply.get("code", 500)}})
        self.end_stream()

    def play_html(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        page = b"<html>welcome</html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def play_silence(self, body: dict[str, Any], reply: dict[str, Any]) -> None:
        time.sleep(reply["seconds"])
        self.play_answer(body, reply)

    # ---- wire

    def envelope(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        known = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "toy-model"}
        return known | {"choices": choices, "system_fingerprint": "fp-7"}

    def send(self, code: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, value: Any) -> None:
        self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def end_stream(self) -> None:
        self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
