"""CUDA C++ to host C++ on tokens: launches, `__shared__` variables, inline PTX, unused headers.

All other CUDA and MUSA names come from the headers. Every line keeps its number, in macros too.
"""

from collections.abc import Iterable, Sequence

from musaagent.tools.host.launches import Launch, find_launches
from musaagent.tools.host.lexer import Kind, Token, following, lex, match_forward, previous
from musaagent.tools.host.reading import Source, asm_is_empty, find_asm, read
from musaagent.tools.host.scopes import split_top_level
from musaagent.tools.host.shared_variables import Declarator, SharedVariable

UNSUPPORTED_ASM = "::musahost::unsupported_inline_ptx()"
DYNAMIC_PREFIX = "musahost_dynamic_"
_NO_VARIABLE_ARRAYS = '_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \\"-Wvla\\"") '
_POP = ' _Pragma("GCC diagnostic pop")'
_NO_ASM = '__asm__ volatile("" ::: "memory")'


def rewrite(text: str, unused_headers: frozenset[str] = frozenset()) -> str:
    """The host form of one source. `unused_headers` are #includes to leave out."""
    return Rewriter(read(text), unused_headers).run()


_CPU_WORDS = {
    "is_cuda": "is_cpu",
    "is_privateuseone": "is_cpu",
    "is_musa": "is_cpu",
    "kCUDA": "kCPU",
    "kMUSA": "kCPU",
    "kPrivateUse1": "kCPU",
}


def to_cpu_device(text: str) -> str:
    """CUDA and MUSA device names as the CPU's, for torch's own headers, where tensors are on it."""
    tokens = lex(text)
    out: list[str] = []
    for index, token in enumerate(tokens):
        word = token.text
        if token.kind is Kind.WORD and word in ("CUDA", "PrivateUse1"):
            qualifier = previous(tokens, previous(tokens, index))
            word = "CPU" if qualifier >= 0 and tokens[qualifier].text == "DeviceType" else word
        out.append(_CPU_WORDS.get(word, word) if token.kind is Kind.WORD else word)
    return "".join(out)


class Rewriter:
    """Renders token ranges; every item that is rewritten starts at one token."""

    def __init__(self, source: Source, unused_headers: frozenset[str]) -> None:
        self.source = source
        self.tokens = source.tokens
        self.unused_headers = unused_headers
        alive = [x for x in find_launches(self.tokens) if not source.skipped(x.open)]
        self.launches = {launch.kernel: launch for launch in alive}
        variables = source.shared_variables()
        self.variables = {v.start: v for v in variables if not source.skipped(v.start)}
        self.before: dict[int, str] = {}
        self.after: dict[int, str] = {}
        self.nulls = self.null_arguments()
        self.add_local_views()
        self.refuse_variable_arrays()

    def run(self) -> str:
        return self.render(0, len(self.tokens))

    def render(self, start: int, end: int) -> str:
        """Host text of tokens[start:end]."""
        out: list[str] = []
        index = start
        while index < end:
            if index in self.launches:
                out.append(self.launch(self.launches[index]))
                index = self.launches[index].end + 1
            elif index in self.variables:
                out.append(self.shared(self.variables[index]))
                index = self.variables[index].end
            elif (asm_end := find_asm(self.source, index)) is not None:
                text = _NO_ASM if asm_is_empty(self.tokens, index) else UNSUPPORTED_ASM
                out.append(text + self.breaks(index, asm_end))
                index = asm_end
            else:
                out.append(self.plain(index))
                index += 1
        return "".join(out)

    def plain(self, index: int) -> str:
        token = self.tokens[index]
        if token.kind is Kind.HEADER and token.text[1:-1] in self.unused_headers:
            return "<musahost/abi.h>"
        text = "nullptr" if index in self.nulls else token.text
        return self.before.get(index, "") + text + self.after.get(index, "")

    def breaks(self, start: int, end: int) -> str:
        """The line ends of a range that is rendered elsewhere, so that no line is lost."""
        return "".join(
            ("\\\n" if token.directive else "\n") * token.text.count("\n")
            for token in self.tokens[start:end]
        )

    def flat(self, start: int, end: int) -> str:
        """A range on one line, without comments."""
        return self.flat_tokens(range(start, end))

    def flat_tokens(self, indices: Iterable[int]) -> str:
        out: list[str] = []
        last = -2
        for index in indices:
            token = self.tokens[index]
            if (token.blank or index != last + 1) and out and out[-1] != " ":
                out.append(" ")
            if not token.blank:
                out.append(token.text)
            last = index
        return "".join(out).strip()

    def quoted(self, start: int, end: int) -> str:
        """A range as a string literal; a macro's parameters appear as what they stand for."""
        parameters = self.source.macro_at(start) or []
        pieces = [""]
        for index in range(start, end):
            token = self.tokens[index]
            if token.text in parameters and token.kind is Kind.WORD:
                pieces += ["#" + token.text, ""]
            elif token.blank:
                pieces[-1] += "" if pieces[-1].endswith(" ") else " "
            elif token.text != "##":
                pieces[-1] += token.text.replace("\\", "\\\\").replace('"', '\\"')
        pieces[0], pieces[-1] = pieces[0].lstrip(), pieces[-1].rstrip()
        strings = [p if n % 2 else f'"{p}"' for n, p in enumerate(pieces) if p or n % 2]
        return " ".join(strings) or '""'

    def launch(self, launch: Launch) -> str:
        kernel = self.flat(launch.kernel, launch.open)
        config = self.render(launch.open + 1, launch.close)
        run, arguments = self.call(kernel, launch)
        key = (
            "[&](auto musahost_tag) -> const void* { if constexpr (requires {"
            f" ::musahost::function_key<decltype(musahost_tag)>({kernel}); }})"
            f" return ::musahost::function_key<decltype(musahost_tag)>({kernel});"
            " else return nullptr; }"
        )
        return (
            f"::musahost::launch({self.breaks(launch.kernel, launch.open)}"
            f"::musahost::config({config}), __FILE__, {self.line(launch.kernel)},"
            f" {self.quoted(launch.kernel, launch.open)}, {key}, {run}"
            f"{self.breaks(launch.close + 1, launch.arguments)}{arguments})"
        )

    def line(self, index: int) -> str:
        """In ordinary text the number itself: in a macro's arguments __LINE__ is the macro's."""
        token = self.tokens[index]
        return "__LINE__" if token.directive else str(token.line)

    def call(self, kernel: str, launch: Launch) -> tuple[str, str]:
        """The function that one thread runs, and the arguments that are evaluated once.

        A literal 0, NULL or {...} stays in the call itself: its type depends on the parameter.
        """
        parts = split_top_level(self.tokens, launch.arguments + 1, launch.end)
        literal = [self.is_literal(*part) for part in parts]
        if not any(literal) or any(t.text == "..." for t in self.between(launch)):
            run = f"[=](auto&&... musahost_p) {{ {kernel}(musahost_p...); }}"
            return run, self.comma(launch, parts) + self.render(launch.arguments + 1, launch.end)
        names = [f"musahost_p{i}" for i in range(len(parts))]
        declared = ", ".join(f"auto&& {n}" for n, x in zip(names, literal, strict=True) if not x)
        passed = ", ".join(
            self.flat(*part) if x else n for n, x, part in zip(names, literal, parts, strict=True)
        )
        rest = "".join(
            self.breaks(*part) if x else f", {self.render(*part)}"
            for x, part in zip(literal, parts, strict=True)
        )
        return f"[=]({declared}) {{ {kernel}({passed}); }}", rest

    def between(self, launch: Launch) -> Sequence[Token]:
        return self.tokens[launch.arguments + 1 : launch.end]

    def is_literal(self, start: int, end: int) -> bool:
        words = [t.text for t in self.tokens[start:end] if not t.blank]
        return words in (["0"], ["NULL"]) or words[:1] == ["{"]

    def comma(self, launch: Launch, parts: Sequence[tuple[int, int]]) -> str:
        """What joins the arguments to the rest; a macro's variadic ones may turn out to be none."""
        if not parts:
            return ""
        words = [t.text for t in self.between(launch) if not t.blank]
        macro = self.source.macro_at(launch.open)
        if macro and words in (["__VA_ARGS__"], macro[-2:-1]) and macro[-1] == "...":
            return " __VA_OPT__(,) "
        return ", "

    def shared(self, variable: SharedVariable) -> str:
        out: list[str] = []
        kind = self.flat_tokens(variable.specifiers)
        if variable.defines_type:
            line = self.tokens[variable.start].line
            out.append(f"typedef {kind} musahost_shared_{line};")
            kind = f"musahost_shared_{line}"
        for declarator in variable.declarators:
            if variable.file_scope:
                external = variable.external
                out.append(self.file_scope_variable(kind, declarator, external=external))
            else:
                out.append(self.local_variable(kind, declarator, variable))
        text = " ".join(out)
        if not variable.terminated:
            text = text.removesuffix(";")
        return text + self.breaks(variable.start, variable.end)

    def typed(self, kind: str, declarator: Declarator, name: str) -> str:
        """The declaration with `name` in place of the variable's own."""
        left = self.flat(declarator.start, declarator.name[0])
        right = self.flat(declarator.name[1], declarator.end)
        return f"{kind} {left}{name}{right}"

    def local_variable(self, kind: str, declarator: Declarator, variable: SharedVariable) -> str:
        """A reference to the block's copy. nvcc refuses initialisers; so does this, by its `=`."""
        reference = self.typed(kind, declarator, f"(&{self.flat(*declarator.name)})")
        pointer = self.typed(kind, declarator, "(*)")
        value = self.typed(kind, declarator, "")
        if variable.external:
            # The unused declaration makes g++ refuse one name with two types, as nvcc does.
            name = DYNAMIC_PREFIX + self.flat(*declarator.name)
            claim = f"extern {self.typed(kind, declarator, name)};"
            return (
                f"{claim} {reference} = *static_cast<{pointer}>(musahost_current.dynamic_shared);"
            )
        key, alignment = "static char", f"alignof({value})"
        if variable.alignment:
            attributes = self.flat_tokens(variable.alignment)
            members = f"{attributes} char a; alignas({value}) char b;"
            key = f"struct musahost_key {{ {members} }}; static musahost_key"
            alignment = "alignof(musahost_key)"
        storage = (
            f"[] {{ {key} musahost_k; return ::musahost_shared(&musahost_k,"
            f" sizeof({value}), {alignment}, {self.quoted(*declarator.name)}); }}()"
        )
        return f"{reference} = *static_cast<{pointer}>({storage});"

    def file_scope_variable(self, kind: str, declarator: Declarator, *, external: bool) -> str:
        """Only a type and a key: every function that uses the variable gets a view of it."""
        name = self.flat(*declarator.name)
        typedef = self.typed(f"typedef {kind}", declarator, f"musahost_type_{name}")
        if external:
            return f"{typedef}; extern {self.typed(kind, declarator, DYNAMIC_PREFIX + name)};"
        return f"{typedef}; static char musahost_key_{name};"

    def null_arguments(self) -> set[int]:
        """NULL among the arguments of a macro that launches: as a number it would lose its type."""
        tokens, found = self.tokens, set()
        places = [launch.open for launch in self.launches.values()]
        names = {m.name for m in self.source.macros if any(m.start <= p < m.end for p in places)}
        for index, token in enumerate(tokens):
            opener = following(tokens, index)
            if token.text not in names or opener == len(tokens) or tokens[opener].text != "(":
                continue
            close = match_forward(tokens, opener)
            found |= {i for i in range(opener, close or opener) if tokens[i].text == "NULL"}
        return found

    def add_local_views(self) -> None:
        """Views of file-scope variables, in an own scope around each body that uses them."""
        for variable in self.variables.values():
            if not variable.file_scope:
                continue
            for declarator in variable.declarators:
                name = self.flat(*declarator.name)
                view = _view(name, external=variable.external)
                for opener, closer in self.users(name, variable.start):
                    self.after[opener] = f" {view} {{" + self.after.get(opener, "")
                    self.after[closer] = self.after.get(closer, "") + "}"

    def refuse_variable_arrays(self) -> None:
        """g++ takes arrays of variable length; nvcc does not, in device code."""
        for function in self.source.outline.functions:
            if function.body is not None and function.device:
                self.before[function.start] = _NO_VARIABLE_ARRAYS
                closer = function.body[1]
                self.after[closer] = self.after.get(closer, "") + _POP

    def users(self, name: str, after: int) -> list[tuple[int, int]]:
        """Bodies of functions that use `name`, itself or by a macro, and have no such parameter."""
        names = {name}
        names |= {m.name for m in self.source.macros if name in self.source.macro_words(m.name)}
        found = []
        for function in self.source.outline.functions:
            if function.body is None or function.start < after:
                continue
            low, high = function.parameters
            own = any(t.text == name for t in self.tokens[low:high])
            body = self.tokens[function.body[0] : function.body[1]]
            if not own and any(t.text in names and t.kind is Kind.WORD for t in body):
                found.append(function.body)
        return found


def _view(name: str, *, external: bool) -> str:
    kind = f"musahost_type_{name}"
    place = "musahost_current.dynamic_shared"
    if not external:
        size = f"sizeof({kind}), alignof({kind})"
        place = f'::musahost_shared(&musahost_key_{name}, {size}, "{name}")'
    return f"{kind}& {name} = *static_cast<{kind}*>({place});"
