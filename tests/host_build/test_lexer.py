"""The lexer gives every text back exactly, and tells tokens apart where C++ is nasty."""

import random

import pytest

from musaagent.tools.host.lexer import Kind, directives, inactive_lines, lex

NASTY = [
    "",
    "\n",
    "int a = 1'000'000; float b = .5e-3f, c = 0x1.8p+3, d = 0b1010'1010u; auto e = 1.e5;",
    'auto s = R"x(raw " )" \\ // not a comment <<<1,2>>>( )x"; int after;',
    'auto t = u8"\\"esc\\\\" "two" L\'\\\'\' U"x" u\'y\' LR"(\n)";',
    "// a comment \\\n that goes on\nint x; /* block\n<<< >>> */ int y;",
    "#define A(x, ...) \\\n  k<<<x, \\\n  2>>>(__VA_ARGS__)\nint z;",
    "#if 0\nit's broken \" here <<<\n#endif\nint ok;",
    '#include <a/b//c.h>\n#include "d\'e.h"\n# include <f>\n',
    "#error don't do this\nint x;",
    "#pragma unroll 4\r\nint a; \\\r\n int b;\r\n",
    "template <class T> struct S<A<B<C<T>>>> {}; x >>= 2; y = a >> 3; z = p->q->*r;",
    "k<f<a>><<<1, 2>>>(x); k<<<g<h<1>>>{}, 2>>>(y); auto b = a<b<c<d>>>(e);",
    "a <=> b; c <<= 1; d << 2; e<::f>; operator<<<int>(o, p);",
    "unterminated /* comment",
    "unterminated \" string\n and ' char",
    "$dollar @at `tick` \\ caf\u00e9 = 1;",
    "%:define digraph <% %>",
    "case 1 ... 5: x = y ? .1 : 2.; i+++++j;",
]


@pytest.mark.parametrize("text", NASTY)
def test_round_trip(text: str) -> None:
    assert "".join(token.text for token in lex(text)) == text


def test_round_trip_of_random_mixtures() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    pieces = [*NASTY, *"<>()[]{}\"'\\\n#/*;,", "<<<", ">>>", "//", "/*", "*/", 'R"(', "\\\n"]
    for _ in range(300):
        text = "".join(draw.choice(pieces) for _ in range(draw.randrange(1, 25)))
        tokens = lex(text)
        assert "".join(token.text for token in tokens) == text
        line = 1
        for token in tokens:
            assert token.line == line
            line += token.text.count("\n")


def words(text: str, kind: Kind) -> list[str]:
    return [token.text for token in lex(text) if token.kind is kind]


def test_numbers_keep_separators_exponents_and_suffixes() -> None:
    text = "1'000 0x1p-3f 1e+5L .5 1.f 0b11u 3ull x1"
    assert words(text, Kind.NUMBER) == ["1'000", "0x1p-3f", "1e+5L", ".5", "1.f", "0b11u", "3ull"]
    assert words(text, Kind.WORD) == ["x1"]


def test_raw_strings_end_at_their_own_mark() -> None:
    text = 'f(R"(a)b")", R"x()")x", u8R"(z)");'
    assert words(text, Kind.STRING) == ['R"(a)b")"', 'R"x()")x"', 'u8R"(z)"']


@pytest.mark.parametrize(
    ("text", "launches"),
    [
        ("k<<<1, 2>>>(x);", 1),
        ("k<T><<<1, 2>>> (x);", 1),
        ("k<<<dim3(a >> 1), f<b<2>>()>>>(x);", 1),
        ("k<<<g, B<256>::n>>>(x); k<A<B>><<<1, h<c<3>>>>>(y);", 2),
        ("(*p)<<<1, 2>>>(x); t[i]<<<1, 2>>>();", 2),
        ("outer<<<1, 2>>>(f([&] { inner<<<3, 4>>>(a); }));", 2),
        ("a<b<c<d>>>(e);", 0),
        ("std::vector<std::vector<std::vector<int>>> v(3);", 0),
        ("operator<<<int>(a, b);", 0),
        ("x = 1 <<<2;", 0),
        ('"k<<<1, 2>>>(x)"; // k<<<1, 2>>>(x)', 0),
        ("k<<<1, 2; 3>>>(x);", 0),
        ("#define L k<<<1, 2\n>>>(x)", 0),
    ],
)
def test_launch_tokens_stand_only_where_a_launch_is(text: str, launches: int) -> None:
    assert words(text, Kind.LAUNCH_OPEN) == ["<<<"] * launches
    assert words(text, Kind.LAUNCH_CLOSE) == [">>>"] * launches


def test_directives_reach_over_spliced_lines() -> None:
    text = "int a;\n#define M(x) \\\n  x + \\\n  1\nint b;\n  # include <v> // note\n"
    tokens = lex(text)
    found = list(directives(tokens))
    assert [d.name for d in found] == ["define", "include"]
    assert "".join(t.text for t in tokens[found[0].start : found[0].end]).endswith("1")
    assert words(text, Kind.HEADER) == ["<v>"]


def test_lines_that_if_0_skips() -> None:
    text = "#if 0\nA\n#if X\nB\n#endif\n#else\nC\n#endif\n"
    text += "#if 1\nD\n#else\nE\n#endif\n#if X\nF\n#endif"
    skipped = {line for start, end in inactive_lines(lex(text)) for line in range(start, end + 1)}
    lines = text.split("\n")
    assert {lines[n - 1] for n in skipped if not lines[n - 1].startswith("#")} == {"A", "B", "E"}
