"""From a policy's answer to a candidate, or to the reason why it holds none."""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from musaagent.tools.candidate import Candidate
from musaagent.tools.results import Status, Verdict
from musaagent.tools.syntax import parse

CLASS_NAME = "ModelNew"
_END_TOKENS = ("<|im_end|>", "<|endoftext|>", "</s>")
_PYTHON = {"", "py", "python", "python3"}
_TOOL_CALLS = ("<tool_call>", "<function=", '{"name":', "<|tool")
MAX_CODE_BYTES = 200_000
"""Of the extracted code: thinking may be as long as it likes."""


class ExtractionFault(StrEnum):
    """Why an answer holds no candidate."""

    EMPTY = "empty"
    """Nothing is left after the thinking."""
    UNFINISHED_THINKING = "unfinished_thinking"
    """The answer ends before its `</think>`."""
    NO_CODE = "no_code"
    """No Python block, and the text itself is no Python."""
    NO_MODEL_NEW = "no_model_new"
    """There is Python, and none of it defines `ModelNew`."""
    SYNTAX = "syntax"
    """The block with `ModelNew` is no valid Python."""
    CUT_OFF = "cut_off"
    """The answer hit its length limit: its last block, or its thinking, was never closed."""
    TOOL_CALL = "tool_call"
    """The answer calls a tool; there are none."""
    TOO_LONG = "too_long"
    """The code itself, not the answer around it, is larger than any kernel."""


@dataclass(frozen=True)
class ExtractionError:
    fault: ExtractionFault
    message: str
    """One line, fit for feedback."""
    line: int = 0
    """1-based line in the code block, 0 where unknown."""
    text: str = ""
    """The source line itself."""


@dataclass(frozen=True)
class _Block:
    language: str
    source: str
    closed: bool


def extract(
    answer: str,
    parent: str | None = None,
    finish_reason: str = "stop",
    class_name: str = CLASS_NAME,
) -> Candidate | ExtractionError:
    """The last Python block after the thinking that defines the class; without a fence, the text.

    The rule is the one that reproductions of MusaCoder's evaluation found to work. `finish_reason`
    is the server's: `length` means that the answer was cut, `tool_calls` that it is none.
    """
    found = _extract(answer, parent, finish_reason == "length", class_name)
    if isinstance(found, Candidate):
        size = len(found.source.encode(errors="replace"))
        if size > MAX_CODE_BYTES:
            message = f"the code has {size:,} bytes; at most {MAX_CODE_BYTES:,} are taken"
            return ExtractionError(ExtractionFault.TOO_LONG, message)
        return found
    if found.fault in (ExtractionFault.EMPTY, ExtractionFault.NO_CODE):
        if finish_reason == "tool_calls" or any(mark in answer for mark in _TOOL_CALLS):
            return ExtractionError(ExtractionFault.TOOL_CALL, "the answer calls a tool")
        if finish_reason == "length":
            message = "the answer hit its length limit before any code"
            return ExtractionError(ExtractionFault.CUT_OFF, message)
    return found


def _extract(
    answer: str, parent: str | None, cut: bool, class_name: str
) -> Candidate | ExtractionError:
    text = _without_end_tokens(answer.replace("\r\n", "\n").strip())
    # First as it stands: bare code may hold fences and tags of its own, in its strings.
    whole = _read(_Block("", text, closed=True), parent, class_name, fenced=False)
    if isinstance(whole, Candidate):
        return whole
    if "<think>" in text and "</think>" not in text:
        if cut:
            message = "the answer hit its length limit inside its thinking"
            return ExtractionError(ExtractionFault.CUT_OFF, message)
        return ExtractionError(
            ExtractionFault.UNFINISHED_THINKING, "the answer ends inside its thinking"
        )
    text = text.rpartition("</think>")[2].strip()
    if not text:
        return ExtractionError(ExtractionFault.EMPTY, "the answer is empty")
    blocks = [block for block in _fenced(text) if block.language in _PYTHON]
    if not blocks:
        return _read(_Block("", text, closed=True), parent, class_name, fenced=False)
    if cut and not blocks[-1].closed:
        # Half a program may parse, and an earlier block is a draft that was being replaced.
        message = "the answer hit its length limit inside its code block"
        return ExtractionError(ExtractionFault.CUT_OFF, message)
    mentioned = (b for b in reversed(blocks) if _mentions_class(b.source, class_name))
    return _read(next(mentioned, blocks[-1]), parent, class_name, fenced=True)


def _without_end_tokens(text: str) -> str:
    while text.endswith(_END_TOKENS):
        text = text[: text.rindex("<")].rstrip()
    return text


def extraction_verdict(error: ExtractionError, target: str) -> Verdict:
    """The verdict that an answer without a candidate gets."""
    where = f", line {error.line}: {error.text.strip()}" if error.line else ""
    return Verdict(
        status=Status.EXTRACTION_ERROR,
        target=target,
        message=error.message + where,
        fault=error.fault.value,
    )


def _read(
    block: _Block, parent: str | None, class_name: str, fenced: bool
) -> Candidate | ExtractionError:
    source = block.source.strip("\n") + "\n"
    try:
        tree = _parse(source)
    except SyntaxError as error:
        return _unreadable(block, error, class_name, fenced)
    except (ValueError, RecursionError, MemoryError) as error:
        return ExtractionError(ExtractionFault.SYNTAX, f"the code cannot be parsed: {error}")
    if not _defines_class(tree.body, class_name):
        return ExtractionError(
            ExtractionFault.NO_MODEL_NEW, f"no Python block defines {class_name}"
        )
    return Candidate(source, parent)


def _unreadable(
    block: _Block, error: SyntaxError, class_name: str, fenced: bool
) -> ExtractionError:
    if not fenced and not _mentions_class(block.source, class_name):
        return ExtractionError(ExtractionFault.NO_CODE, "the answer holds no Python code block")
    line = error.lineno or 0
    lines = block.source.strip("\n").split("\n")
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    if not block.closed:
        message = f"the code block is cut off ({error.msg}): the answer ended before its end"
        return ExtractionError(ExtractionFault.CUT_OFF, message, line, text)
    return ExtractionError(ExtractionFault.SYNTAX, f"invalid Python: {error.msg}", line, text)


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        # "\d" in a string of the candidate is its author's business.
        warnings.simplefilter("ignore")
        return parse(source)


def _fenced(text: str) -> Iterator[_Block]:
    fence, language, lines = "", "", list[str]()
    for line in text.split("\n"):
        stripped = line.strip()
        if not fence:
            mark = stripped[:1]
            run = len(stripped) - len(stripped.lstrip(mark)) if mark in ("`", "~") else 0
            if run >= 3:
                fence, lines = mark * run, []
                info = stripped[run:].split()
                language = info[0].lower() if info else ""
        elif stripped.startswith(fence) and not stripped.strip(fence[0]):
            yield _Block(language, "\n".join(lines), closed=True)
            fence = ""
        else:
            lines.append(line)
    if fence:
        yield _Block(language, "\n".join(lines), closed=False)


def _mentions_class(source: str, name: str) -> bool:
    try:
        return _defines_class(_parse(source).body, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return re.search(rf"class {name}\b", source) is not None


def _defines_class(body: list[ast.stmt], wanted: str) -> bool:
    return any(_binds(statement, wanted) for statement in body)


def _binds(statement: ast.stmt, wanted: str) -> bool:
    """Whether running the statement at module level can bind the class's name."""
    match statement:
        case ast.ClassDef(name=name):
            return name == wanted
        case ast.Assign(targets=targets):
            return any(isinstance(t, ast.Name) and t.id == wanted for t in targets)
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return name == wanted and value is not None
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return any((alias.asname or alias.name) == wanted for alias in names)
        case ast.If(body=body, orelse=other):
            return _defines_class([*body, *other], wanted)
        case ast.With(body=body):
            return _defines_class(body, wanted)
        case ast.Try(body=body, handlers=handlers, orelse=other, finalbody=final):
            caught = [inner for handler in handlers for inner in handler.body]
            return _defines_class([*body, *other, *final, *caught], wanted)
    return False
