"""The outline of a source: functions with their qualifiers, and what else stands around them."""

from musaagent.tools.host.lexer import lex
from musaagent.tools.host.scopes import Outline, outline

SOURCE = r"""
#include <x.h>
namespace a { namespace {
template <typename T, int N = (1 > 0)>
__global__ void __launch_bounds__(256) kernel(T* x, int n = 3) { if (n) { x[0] = {}; } }
}}
extern "C" void c_function(int);
struct __align__(16) Pair { float x, y; __device__ float sum() const { return x + y; } };
enum Color { RED, GREEN };
static const float table[2] = {1.f, 2.f};
auto lambda = [](int a) { return a; };
#if X
void either(int a) {
#else
void either(long a) {
#endif
  work();
}
std::vector<torch::Tensor> last(torch::Tensor x) { return {x}; }
PYBIND11_MODULE(NAME, m) { m.def("f", &last); }
#if 0
void skipped() {
#endif
"""


def read() -> Outline:
    return outline(lex(SOURCE))


def test_functions_are_found_with_their_qualifiers() -> None:
    functions = {f.name: f for f in read().functions}
    expected = ["PYBIND11_MODULE", "c_function", "either", "kernel", "last", "sum"]
    assert sorted(functions) == expected
    assert functions["kernel"].kernel
    assert functions["sum"].device
    assert not functions["last"].device
    assert functions["c_function"].body is None
    assert not functions["kernel"].global_scope
    assert functions["last"].global_scope


def test_bodies_reach_to_their_own_brace() -> None:
    tokens = lex(SOURCE)
    for function in read().functions:
        if function.body is None:
            continue
        body = "".join(t.text for t in tokens[function.body[0] : function.body[1] + 1])
        assert body.startswith("{")
        assert body.endswith("}")
        ends = {"either": "work();\n}", "last": "{ return {x}; }", "kernel": "x[0] = {}; } }"}
        assert body.endswith(ends.get(function.name, "}"))


def test_other_statements_are_kept_apart() -> None:
    tokens = lex(SOURCE)
    texts = ["".join(t.text for t in tokens[a:b]) for a, b in read().others]
    assert any("table" in text for text in texts)
    assert any("Color" in text for text in texts)
    assert not any("kernel" in text for text in texts)


def test_a_place_knows_its_function() -> None:
    tokens = lex(SOURCE)
    place = next(i for i, t in enumerate(tokens) if t.text == "work")
    found = read().function_at(place)
    assert found is not None
    assert found.name == "either"
