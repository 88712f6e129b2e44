"""Launches and `__shared__` in all their forms: what they become, and that no line moves."""

import pytest

from musaagent.tools.host.launches import find_launches
from musaagent.tools.host.lexer import lex
from musaagent.tools.host.rewrite import rewrite, to_cpu_device


def kernel_of(text: str) -> str:
    tokens = lex(text)
    (launch,) = find_launches(tokens)
    return "".join(t.text for t in tokens[launch.kernel : launch.open]).strip()


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("k<<<1, 2>>>(x);", "k"),
        ("return k<<<1, 2>>>(x);", "k"),
        ("if (a) k<<<1, 2>>>(x); else b();", "k"),
        ("if (a) (k)<<<1, 2>>>(x);", "(k)"),
        ("ns::inner::k<<<1, 2>>>(x);", "ns::inner::k"),
        ("::k<float><<<1, 2>>>(x);", "::k<float>"),
        ("return ::k<<<1, 2>>>(x);", "::k"),
        ("k<T, (a > b), 1 << 3><<<1, 2>>>(x);", "k<T, (a > b), 1 << 3>"),
        ("ns<int>::k<A<B<C>>><<<1, 2>>>(x);", "ns<int>::k<A<B<C>>>"),
        ("(*pointer)<<<1, 2>>>(x);", "(*pointer)"),
        ("table[i + 1]<<<1, 2>>>(x);", "table[i + 1]"),
        ("pick<T>(n)<<<1, 2>>>(x);", "pick<T>(n)"),
        ("ops.kernel<<<1, 2>>>(x);", "ops.kernel"),
        ("ops->template kernel<T><<<1, 2>>>(x);", "ops->template kernel<T>"),
        ("while (n--) k /* why */ <T> <<<1, 2>>> (x);", "k /* why */ <T>"),
    ],
)
def test_the_kernel_is_found_whole(text: str, kernel: str) -> None:
    assert kernel_of(text) == kernel


LINES = r"""
#define LAUNCH(k, T, ...) \
  k<T><<<grid, \
         block>>>(__VA_ARGS__)
#define TILE(name) \
  __shared__ float name[32]
extern __shared__ float pool[];
__global__ void a(float* x, int n) {
  __shared__ float tile
      [16]
      [17];
  pool[0] = tile[0][0]; // k<<<1, 2>>>(x)
  asm volatile("mov.u32 %0, %%laneid;"
               : "=r"(n)
               :);
}
void host(float* x) {
  a<<<dim3(1,  // one
           2),
      3
      >>>
      (x,
       /* two */ 4);
  ns::
    b<float,
      3> <<<1, 2>>>(x,
                    0);
}
"""


def test_every_line_keeps_its_number() -> None:
    new, old = rewrite(LINES).split("\n"), LINES.split("\n")
    assert len(new) == len(old)
    stay = ["block", "#define TILE", "pool[0] =", "dim3(1", "           2)", "      3", "}"]
    for word in [*stay, "/* two */ 4", "__global__ void a", "void host"]:
        places = [n for n, line in enumerate(old) if word in line]
        assert places
        assert all(word.strip() in new[n] for n in places), word
    assert [line.endswith("\\") for line in new] == [line.endswith("\\") for line in old]


def test_a_launch_carries_its_place_and_its_kernel() -> None:
    text = "\n\nvoid f() { AT_DISPATCH(t, [&] {\n  k<T><<<g, b, 0, s>>>(x, n);\n}); }"
    new = rewrite(text)
    assert '::musahost::config(g, b, 0, s), __FILE__, 4, "k<T>"' in new
    assert "k<T>(musahost_p...); }, x, n)" in new


def test_macro_parameters_are_named_by_what_they_stand_for() -> None:
    new = rewrite("#define L(k, T) k<T><<<1, 2>>>()\n#define M(x) run_##x<<<1, 2>>>()\n")
    assert '#k "<" #T ">"' in new
    assert '"run_" #x' in new
    assert "__LINE__" in new


@pytest.mark.parametrize("name", ["__VA_ARGS__", "rest"])
def test_variadic_arguments_of_a_macro_may_be_none(name: str) -> None:
    parameters = "..." if name == "__VA_ARGS__" else "rest..."
    new = rewrite(f"#define L(k, {parameters}) k<<<1, 2>>>({name})\n")
    assert f"__VA_OPT__(,) {name})" in new


def test_null_zero_and_braces_stay_in_the_call() -> None:
    new = rewrite("void f() { k<<<1, 2>>>(x, 0, NULL, {1, 2}, y); }")
    assert "k(musahost_p0, 0, NULL, {1, 2}, musahost_p4)" in new
    assert "[=](auto&& musahost_p0, auto&& musahost_p4)" in new
    assert new.count("NULL") == 1


def test_null_given_to_a_macro_that_launches_keeps_its_type() -> None:
    text = "#define L(k, ...) k<<<1, 2>>>(__VA_ARGS__)\nvoid f() { L(k, NULL); g(NULL); }\n"
    assert "L(k, nullptr); g(NULL);" in rewrite(text)


def test_a_launch_inside_an_argument_is_rewritten_too() -> None:
    new = rewrite("void f() { a<<<1, 2>>>(g([&] { b<<<3, 4>>>(x); })); }")
    assert new.count("::musahost::launch(") == 2
    assert "<<<" not in new


def shared(declaration: str, before: str = "") -> str:
    return rewrite(f"{before}__global__ void k(int n) {{ {declaration} use(); }}")


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("__shared__ float s[32];", "float (&s)[32] = *static_cast<float (*)[32]>("),
        ("__shared__ float s[T][T + 1];", "float (&s)[T][T + 1] = "),
        ("__shared__ int s;", "int (&s) = *static_cast<int (*)>("),
        ("static __shared__ int s;", "int (&s) = "),
        ("__shared__ volatile float s[4];", "volatile float (&s)[4] = "),
        ("volatile __shared__ float s[4];", "volatile float (&s)[4] = "),
        ("float __shared__ s[4];", "float (&s)[4] = "),
        ("__shared__ float* s[4];", "float *(&s)[4] = "),
        ("__shared__ A<int, 4> s;", "A<int, 4> (&s) = "),
        ("__shared__ typename R<T>::Storage s;", "typename R<T>::Storage (&s) = "),
        ("__shared__ float s[n < 3 ? 1 : 2];", "float (&s)[n < 3 ? 1 : 2] = "),
        (
            "__shared__ __align__(16) float4 s[8];",
            "{ __align__(16) char a; alignas(float4 [8]) char b; }",
        ),
        ("__shared__ alignas(8) char s[8];", "{ alignas(8) char a; alignas(char [8]) char b; }"),
        ("alignas(8) __shared__ char s[8];", "{ alignas(8) char a; alignas(char [8]) char b; }"),
        (
            "__shared__ float s[8] __attribute__((aligned(16)));",
            "{ __attribute__((aligned(16))) char a; ",
        ),
    ],
)
def test_static_shared_variables(declaration: str, expected: str) -> None:
    new = shared(declaration)
    assert expected in new
    assert "__shared__" not in new
    assert '"s")' in new


def test_several_declarators_share_the_type() -> None:
    new = shared("__shared__ float a[4], *b, c;")
    assert "float (&a)[4]" in new
    assert "float *(&b) =" in new
    assert "float (&c) =" in new


def test_a_struct_may_be_defined_in_the_declaration() -> None:
    new = shared("__shared__ struct { int a; float b; } s, t[2];")
    assert new.count("struct { int a; float b; }") == 1
    assert "(&t)[2]" in new


def test_a_macro_body_without_semicolon() -> None:
    new = rewrite("#define TILE(n) __shared__ float n[4]\n#define BUF(n) __shared__ int buf_##n\n")
    assert new.splitlines()[0].endswith("#n); }())")
    assert "(&buf_##n) = " in new
    assert '"buf_" #n' in new


def test_dynamic_shared_memory_in_a_function() -> None:
    new = shared("extern __shared__ __align__(16) unsigned char s[];")
    assert "unsigned char (&s)[] = *static_cast<unsigned char (*)[]>(musahost_current" in new
    assert "extern unsigned char musahost_dynamic_s[];" in new


def test_file_scope_variables_are_seen_by_each_function_that_uses_them() -> None:
    text = (
        "extern __shared__ float pool[];\n__shared__ int flag;\n"
        "__device__ float f(float* pool) { return pool[0]; }\n"
        "__device__ float g() { float* flag = 0; return *flag; }\n"
        "__global__ void k(float* x) { x[0] = pool[1] + flag; }\n"
        "__global__ void other() {}\n"
    )
    lines = rewrite(text).splitlines()
    assert "typedef float musahost_type_pool[];" in lines[0]
    assert "static char musahost_key_flag;" in lines[1]
    assert "musahost_type" not in lines[2]
    # A variable of the same name shadows the view, which stands in a scope of its own.
    assert lines[3].index("musahost_type_flag& flag") < lines[3].index("{ float* flag = 0")
    assert "musahost_type_pool& pool" in lines[4]
    assert "musahost_type_flag& flag" in lines[4]
    assert "flag; }}}" in lines[4]
    assert "musahost_type" not in lines[5]


def test_what_if_0_skips_is_left_alone() -> None:
    text = '#if 0\nk<<<1, 2>>>(x);\n__shared__ int a;\nasm("nop");\n#endif\n'
    assert rewrite(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('asm volatile("" ::: "memory");', '__asm__ volatile("" ::: "memory");'),
        ('asm("" : "+f"(x));', '__asm__ volatile("" ::: "memory");'),
        ('asm volatile ("bar.sync 0;");', "::musahost::unsupported_inline_ptx();"),
        ('__asm__ __volatile__("mov %0;" : "=r"(x));', "::musahost::unsupported_inline_ptx();"),
    ],
)
def test_asm_is_a_barrier_or_refused_where_it_is_reached(text: str, expected: str) -> None:
    assert rewrite(f"void f() {{ {text} }}") == f"void f() {{ {expected} }}"


def test_strings_comments_and_raw_strings_are_no_code() -> None:
    text = (
        'auto a = "k<<<1, 2>>>(x)"; // __shared__ int b;\nauto c = R"(asm("x") k<<<1,2>>>(y))";\n'
    )
    assert rewrite(text) == text


def test_arrays_of_variable_length_are_refused_in_device_code_only() -> None:
    new = rewrite("void f() {}\ntemplate <class T> __device__ void g(T n) { T a[n]; }\n")
    assert new.splitlines()[0] == "void f() {}"
    assert new.splitlines()[1].startswith('_Pragma("GCC diagnostic push")')
    assert new.splitlines()[1].endswith('_Pragma("GCC diagnostic pop")')


def test_unused_headers_are_left_out() -> None:
    new = rewrite("#include <mma.h>\n#include <vector>\n", frozenset({"mma.h"}))
    assert new == "#include <musahost/abi.h>\n#include <vector>\n"


def test_device_names_become_the_cpus_for_torch_s_own_headers() -> None:
    text = 'x.is_cuda(); torch::kCUDA; at::DeviceType::CUDA; my_CUDA; "kCUDA"; ns::CUDA;'
    new = 'x.is_cpu(); torch::kCPU; at::DeviceType::CPU; my_CUDA; "kCUDA"; ns::CUDA;'
    assert to_cpu_device(text) == new
