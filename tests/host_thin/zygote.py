"""A process with torch imported that runs functions of this folder in forked children.

Reads lines of JSON: {"file", "function", "arguments"}; answers with the JSON of a traceback, or "".
"""

import importlib.util
import json
import os
import sys
import traceback

import torch

# Threads do not survive a fork; none may start before.
torch.set_num_threads(1)


def run(request: dict[str, object]) -> str:
    spec = importlib.util.spec_from_file_location("bodies", str(request["file"]))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        getattr(module, str(request["function"]))(*request["arguments"])  # type: ignore[misc]
    except BaseException:
        return traceback.format_exc()
    return ""


def forked(request: dict[str, object]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, run(request).encode()[:60000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return text or (f"the child ended with status {status}" if status else "")


for line in sys.stdin:
    print(json.dumps(forked(json.loads(line))), flush=True)
