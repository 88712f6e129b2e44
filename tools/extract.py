"""From a policy's answer to a candidate, or to the reason why it holds none."""

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from musaagent.tools.candidate import Candidate
from musaagent.tools.results import Status, Verdict

CLASS_NAME = "ModelNew"
_END_TOKENS = ("<|im_end|>", "<|endoftext|>", "</s>")
_PYTHON = {"", "py", "python", "python3"}


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
    """The last block was never closed and does not parse: the answer hit its length limit."""


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


def extract(answer: str, parent: str | None = None) -> Candidate | ExtractionError:
    """The last Python block after the thinking that defines `ModelNew`; without a fence, the text.

    The rule is the one that reproductions of MusaCoder's evaluation found to work.
    """
    text = _without_end_tokens(answer.replace("\r\n", "\n").strip())
    # First as it stands: bare code may hold fences and tags of its own, in its strings.
    whole = _read(_Block("", text, closed=True), parent, fenced=False)
    if isinstance(whole, Candidate):
        return whole
    if "<think>" in text and "</think>" not in text:
        return ExtractionError(
            ExtractionFault.UNFINISHED_THINKING, "the answer ends inside its thinking"
        )
    text = text.rpartition("</think>")[2].strip()
    if not text:
        return ExtractionError(ExtractionFault.EMPTY, "the answer is empty")
    blocks = [block for block in _fenced(text) if block.language in _PYTHON]
    if not blocks:
        return _read(_Block("", text, closed=True), parent, fenced=False)
    chosen = next((block for block in reversed(blocks) if _mentions_class(block.source)), None)
    return _read(chosen or blocks[-1], parent, fenced=True)


def _without_end_tokens(text: str) -> str:
    while text.endswith(_END_TOKENS):
        text = text[: text.rindex("<")].rstrip()
    return text


def extraction_verdict(error: ExtractionError, target: str) -> Verdict:
    """The verdict that an answer without a candidate gets."""
    where = f", line {error.line}: {error.text.strip()}" if error.line else ""
    return Verdict(status=Status.EXTRACTION_ERROR, target=target, message=error.message + where)


def _read(block: _Block, parent: str | None, fenced: bool) -> Candidate | ExtractionError:
    source = block.source.strip("\n") + "\n"
    try:
        tree = _parse(source)
    except SyntaxError as error:
        return _unreadable(block, error, fenced)
    except (ValueError, RecursionError, MemoryError) as error:
        return ExtractionError(ExtractionFault.SYNTAX, f"the code cannot be parsed: {error}")
    if not _defines_class(tree.body):
        return ExtractionError(
            ExtractionFault.NO_MODEL_NEW, f"no Python block defines {CLASS_NAME}"
        )
    return Candidate(source, parent)


def _unreadable(block: _Block, error: SyntaxError, fenced: bool) -> ExtractionError:
    if not fenced and not _mentions_class(block.source):
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
        return ast.parse(source)


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


def _mentions_class(source: str) -> bool:
    try:
        return _defines_class(_parse(source).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"class {CLASS_NAME}" in source


def _defines_class(body: list[ast.stmt]) -> bool:
    return any(_binds(statement) for statement in body)


def _binds(statement: ast.stmt) -> bool:
    """Whether running the statement at module level can bind the class's name."""
    match statement:
        case ast.ClassDef(name=name):
            return name == CLASS_NAME
        case ast.Assign(targets=targets):
            return any(isinstance(t, ast.Name) and t.id == CLASS_NAME for t in targets)
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return name == CLASS_NAME and value is not None
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return any((alias.asname or alias.name) == CLASS_NAME for alias in names)
        case ast.If(body=body, orelse=other):
            return _defines_class(body) or _defines_class(other)
        case ast.With(body=body):
            return _defines_class(body)
        case ast.Try(body=body, handlers=handlers, orelse=other, finalbody=final):
            caught = [inner for handler in handlers for inner in handler.body]
            return _defines_class(body) or _defines_class([*other, *final, *caught])
    return False
