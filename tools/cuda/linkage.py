"""Gives kernels and device variables external linkage, so that two compilers name them alike.

A candidate is one translation unit for each module: nothing else could have the same names.
"""

from musaagent.tools.host.lexer import Kind, following
from musaagent.tools.host.reading import read
from musaagent.tools.host.sources import Piece

_UNNAMED = "inline namespace musacuda_unnamed {"
_LINKAGE = frozenset({"static", "inline", "__inline__", "__forceinline__"})
_SPACES = frozenset({"__device__", "__constant__"})


def exported(part: Piece) -> Piece:
    """The piece without internal linkage of kernels and device variables, line by line the same."""
    source = part.source
    tokens = source.tokens
    instead: dict[int, str] = {}
    for function in source.outline.functions:
        if function.kernel:
            heads = range(function.start, function.parameters[0])
            instead |= {i: "" for i in heads if tokens[i].text in _LINKAGE}
    for start, end in source.outline.others:
        words = {t.text for t in tokens[start:end] if t.kind is Kind.WORD}
        if words & _SPACES and "struct" not in words and "class" not in words:
            instead |= {i: "" for i in range(start, end) if tokens[i].text == "static"}
    for index, token in enumerate(tokens):
        if token.text == "namespace" and token.kind is Kind.WORD and not token.directive:
            brace = following(tokens, index)
            if brace < len(tokens) and tokens[brace].text == "{":
                instead[index], instead[brace] = _UNNAMED, ""
    if not instead:
        return part
    text = "".join(instead.get(i, token.text) for i, token in enumerate(tokens))
    return Piece(part.label, text, part.language, read(text))
