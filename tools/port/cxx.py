"""One C++ or CUDA text to MUSA, on tokens: comments, strings and own identifiers stay as they are.

Every line keeps its number.
"""

import re
from collections.abc import Collection, Sequence

from musaagent.tools.host.lexer import Kind, Token, following, previous
from musaagent.tools.host.reading import Source, read
from musaagent.tools.port.arch_macros import MACRO, rescale
from musaagent.tools.port.remarks import Change, Ported, Remark
from musaagent.tools.port.tables import BUILT_IN_HEADERS, Tables

_QUALIFIERS = frozenset({"at", "c10", "torch"})
_DEVICE_ENUMS = frozenset({"DeviceType", "DispatchKey", "Backend"})
_IMPLEMENTS = frozenset({"TORCH_LIBRARY_IMPL", "REGISTER_DISPATCH"})
_DEVICE_STRING = re.compile(r'"cuda((?::\d+)?)"$')
_DEVICE_CALLS = frozenset({"Device", "device", "to"})
_VERSIONS = frozenset(
    "CUDA_VERSION CUDART_VERSION __CUDACC_VER_MAJOR__ __CUDACC_VER_MINOR__ CUDNN_VERSION".split()
)
# Libraries whose counterpart is not the same interface under another name.
_OTHER_INTERFACE = {
    "cudnn": "muDNN is a C++ interface of its own (mudnn.h): rewrite the calls",
    "nvrtc": "MTRTC (mtrtc.h, SDK 5.2) was not compared call by call",
    "nvtx": "no public counterpart of NVTX in the MUSA headers was found",
    "nvml": "use MTML (libmtml), whose calls differ",
}


def port_cxx(
    text: str,
    tables: Tables,
    *,
    own_names: Collection[str] = (),
    own_headers: Collection[str] = (),
    source: str = "",
    keep_own: bool = True,
) -> Ported:
    """`own_names`: identifiers that other files of the program define; `own_headers`: its headers.

    `keep_own` False renames what the text defines too: a header that stands in for CUDA's.

    The remarks are those of porting only; what the code assumes of the card is `portability`'s.
    """
    porter = _Porter(read(text), tables, own_names, own_headers, source)
    if not keep_own:
        porter.own = frozenset(own_names)
    return porter.run()


def defined_names(source: Source) -> frozenset[str]:
    """Functions, macros and types that a source defines: not CUDA's, whatever they are called."""
    # A conversion operator is named after the type that it gives.
    names = {f.name for f in source.outline.functions if "operator" not in f.words}
    names |= {macro.name for macro in source.macros}
    tokens = source.tokens
    for index, token in enumerate(tokens):
        if token.text in ("struct", "class", "enum", "using") and token.kind is Kind.WORD:
            name = following(tokens, index)
            after = following(tokens, name) if name < len(tokens) else name
            if after < len(tokens) and tokens[after].text in ("{", ":", "="):
                names.add(tokens[name].text)
    return frozenset(names)


class _Porter:
    def __init__(
        self,
        source: Source,
        tables: Tables,
        own_names: Collection[str],
        own_headers: Collection[str],
        label: str,
    ) -> None:
        self.source = source
        self.tokens = source.tokens
        self.tables = tables
        self.own = defined_names(source) | frozenset(own_names)
        self.own_headers = frozenset(own_headers)
        self.label = label
        self.texts = [token.text for token in self.tokens]
        self.changes: list[Change] = []
        self.remarks: list[Remark] = []

    def run(self) -> Ported:
        for index, token in enumerate(self.tokens):
            if token.kind is Kind.HEADER:
                self.header(index, token)
            elif token.kind is Kind.WORD:
                self.word(index, token)
            elif token.kind is Kind.STRING:
                self.string(index, token)
        edits, position = [], 0
        for token, new in zip(self.tokens, self.texts, strict=True):
            if new != token.text:
                edits.append((position, position + len(token.text), new))
            position += len(token.text)
        return Ported(
            text="".join(self.texts),
            edits=tuple(edits),
            changes=tuple(self.changes),
            remarks=tuple(self.remarks),
        )

    def replace(self, index: int, text: str, kind: str) -> None:
        old = self.texts[index]
        if text != old:
            self.texts[index] = text
            self.changes.append(Change(kind=kind, old=old, new=text, line=self.tokens[index].line))

    def remark(self, kind: str, index: int, message: str) -> None:
        line = self.tokens[index].line
        if not any(r.kind == kind and r.line == line for r in self.remarks):
            self.remarks.append(Remark(kind=kind, source=self.label, line=line, message=message))

    def header(self, index: int, token: Token) -> None:
        name = token.text[1:-1]
        opener, closer = token.text[0], token.text[-1]
        last = name.rpartition("/")[2]
        if last in self.own_headers:
            new = re.sub(r"\.cuh$", ".muh", name)
            self.replace(index, opener + new + closer, "header")
            return
        if name in BUILT_IN_HEADERS:
            self.replace(index, f"{opener}musa_runtime.h{closer}", "header")
            return
        new_name = self.tables.header(name)
        if new_name is not None:
            self.replace(index, opener + new_name + closer, "header")
        elif name.startswith(("ATen/cuda/", "c10/cuda/", "ATen/native/cuda/")):
            self.remark("header", index, f"torch_musa has no public counterpart of <{name}>")
        elif name.startswith("cooperative_groups"):
            self.remark("library", index, f"<{name}> was in no public MUSA source: look for it")
        elif name.startswith(("cutlass/", "cute/")):
            self.remark("library", index, "CUTLASS: MUTLASS (mutlass/) is a port of its own")

    def word(self, index: int, token: Token) -> None:
        text = token.text
        if text == MACRO:
            self.arch(index)
        elif text in _VERSIONS:
            self.version(index, text)
        elif text == "cuda":
            self.namespace(index)
        elif text == "CUDA":
            self.enumerator(index)
        elif text == "is_cuda":
            self.is_cuda(index)
        elif text in self.own or self.declared_member(index):
            return
        else:
            self.name(index, text)

    def name(self, index: int, text: str) -> None:
        for prefix, message in _OTHER_INTERFACE.items():
            if re.match(prefix + r"[A-Z]", text):
                self.remark("library", index, message)
        new = self.tables.word(text)
        if new is None:
            return
        if self.pasted(index):
            self.remark("pasting", index, f"{text} is pasted to another token by ##")
        self.replace(index, new, "name")

    def declared_member(self, index: int) -> bool:
        """`x.cudaCount`: a member's name is its class's own affair."""
        before = previous(self.tokens, index)
        after = following(self.tokens, index)
        member = before >= 0 and self.tokens[before].text in (".", "->")
        return member and not (after < len(self.tokens) and self.tokens[after].text == "(")

    def pasted(self, index: int) -> bool:
        around = (previous(self.tokens, index), following(self.tokens, index))
        return any(0 <= i < len(self.tokens) and self.tokens[i].text == "##" for i in around)

    def arch(self, index: int) -> None:
        self.replace(index, "__MUSA_ARCH__", "arch")
        found = rescale(self.tokens, index)
        if found is None:
            before = self.tokens[previous(self.tokens, index)].text if index else ""
            if before not in ("(", "defined", "ifdef", "ifndef", "#") and not self.defined(index):
                self.remark(
                    "arch_threshold", index, "__CUDA_ARCH__ is used as a number: the scales differ"
                )
            return
        self.replace(found.operator, found.operator_text, "arch")
        self.replace(found.number, found.number_text, "arch")
        if found.doubt:
            self.remark("arch_threshold", index, found.doubt)

    def defined(self, index: int) -> bool:
        """`defined(X)`, `defined X`, `#ifdef X`."""
        before = previous(self.tokens, index)
        if before >= 0 and self.tokens[before].text == "(":
            before = previous(self.tokens, before)
        return before >= 0 and self.tokens[before].text in ("defined", "ifdef", "ifndef")

    def version(self, index: int, text: str) -> None:
        if not self.defined(index):
            message = f"{text} is compared with an NVIDIA version, and MUSA counts its own"
            self.remark("version_threshold", index, message)
        new = self.tables.word(text)
        if new is not None:
            self.replace(index, new, "name")

    def namespace(self, index: int) -> None:
        """`at::cuda`, `c10::cuda`, `torch::cuda`; `cuda::` alone is libcu++."""
        before = previous(self.tokens, index)
        if before >= 0 and self.tokens[before].text == "::":
            qualifier = previous(self.tokens, before)
            if qualifier >= 0 and self.tokens[qualifier].text in _QUALIFIERS:
                self.replace(index, "musa", "namespace")
                return
            if qualifier >= 0 and self.tokens[qualifier].text == "thrust":
                self.replace(index, "musa", "namespace")
                return
            if qualifier >= 0 and self.tokens[qualifier].kind is Kind.WORD:
                return
        after = following(self.tokens, index)
        if after < len(self.tokens) and self.tokens[after].text == "::" and "cuda" not in self.own:
            if self.qualified_by_cuda_std(after):
                self.replace(index, "musa", "namespace")
            else:
                self.remark("library", index, "libcu++ (cuda::): only cuda::std has a counterpart")

    def qualified_by_cuda_std(self, colons: int) -> bool:
        name = following(self.tokens, colons)
        return name < len(self.tokens) and self.tokens[name].text == "std"

    def enumerator(self, index: int) -> None:
        """`DeviceType::CUDA`, `TORCH_LIBRARY_IMPL(x, CUDA, m)`."""
        qualifier = previous(self.tokens, previous(self.tokens, index))
        if qualifier >= 0 and self.tokens[qualifier].text in _DEVICE_ENUMS:
            self.replace(index, "PrivateUse1", "device")
            return
        line_words = _call_around(self.tokens, index)
        if line_words in _IMPLEMENTS:
            self.replace(index, "PrivateUse1", "dispatch")

    def is_cuda(self, index: int) -> None:
        before = previous(self.tokens, index)
        if before >= 0 and self.tokens[before].text in (".", "->", "::"):
            self.replace(index, "is_privateuseone", "device")

    def makes_device(self, index: int) -> bool:
        return _variable_type(self.tokens, index) == "Device"

    def string(self, index: int, token: Token) -> None:
        """Only a device's name where a device is made: `torch::Device("cuda:0")`."""
        match = _DEVICE_STRING.match(token.text)
        if match and (
            _call_around(self.tokens, index) in _DEVICE_CALLS or self.makes_device(index)
        ):
            self.replace(index, f'"musa{match[1]}"', "device")


def _variable_type(tokens: Sequence[Token], index: int) -> str:
    """`Device` of `torch::Device d("cuda")`, for the string's index."""
    opener = previous(tokens, index)
    name = previous(tokens, opener) if opener >= 0 else -1
    before = previous(tokens, name) if name >= 0 else -1
    return tokens[before].text if before >= 0 and tokens[opener].text in ("(", "{") else ""


def _call_around(tokens: Sequence[Token], index: int) -> str:
    """The name before the parenthesis that the token stands in; empty where there is none."""
    depth = 0
    for place in range(index - 1, max(index - 200, -1), -1):
        text = tokens[place].text if tokens[place].kind is Kind.PUNCTUATION else ""
        if text in (")", "]", "}"):
            depth += 1
        elif text in ("(", "[", "{"):
            if depth == 0:
                before = previous(tokens, place)
                return tokens[before].text if before >= 0 and text == "(" else ""
            depth -= 1
        elif text == ";" and depth == 0:
            return ""
    return ""
