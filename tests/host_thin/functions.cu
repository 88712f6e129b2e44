// What the bridge's tests call: signatures, operations, exceptions and kernels.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>

namespace py = pybind11;

// ---- signatures
torch::Tensor same(torch::Tensor x) { return x; }
torch::Tensor undefined() { return {}; }
bool no_bias(const c10::optional<torch::Tensor>& bias) { return !bias.has_value(); }
int64_t total(std::vector<int64_t> sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t{0}); }
int64_t product(at::IntArrayRef sizes) { return c10::multiply_integers(sizes); }
std::vector<torch::Tensor> reversed(std::vector<torch::Tensor> list) {
  std::reverse(list.begin(), list.end());
  return list;
}
std::tuple<torch::Tensor, double, std::string> triple(const torch::Tensor& x, float f, const std::string& s) {
  return std::make_tuple(x, f, s);
}
std::map<std::string, torch::Tensor> named(std::map<std::string, torch::Tensor> parameters) {
  parameters["extra"] = torch::zeros({1}, parameters.begin()->second.options());
  return parameters;
}
std::string dtype_name(at::ScalarType type) { return c10::toString(type); }
double number(at::Scalar value) { return value.toDouble(); }
void nothing(torch::Tensor) {}
int narrow(int value) { return value; }
unsigned char byte(unsigned char value) { return value; }
bool flag(bool value) { return value; }
std::array<int, 2> pair(std::array<int, 2> two) { return {two[1], two[0]}; }
int64_t overloaded(torch::Tensor x) { return x.dim(); }
std::string overloaded(const std::string& text) { return text + "!"; }
struct Adder {
  int amount;
  int operator()(int x) const { return x + amount; }
};

// ---- metadata
std::vector<int64_t> metadata(torch::Tensor x) {
  return {x.dim(), x.numel(), x.size(-1), x.stride(0), x.storage_offset(), x.is_contiguous(), x.is_cuda(),
          x.is_cpu(), x.device().index(), static_cast<int64_t>(x.element_size()), x.requires_grad(),
          x.device().type() == torch::kCUDA, x.device().type() == torch::kPrivateUse1,
          x.is_contiguous(at::MemoryFormat::ChannelsLast), static_cast<int64_t>(x.nbytes()), x.get_device()};
}
std::string told(torch::Tensor x) {
  return c10::str(x.dtype(), " ", x.scalar_type(), " ", x.device(), " ", x.sizes(), " ", x.type().toString(), " ", 1.5,
                  " ", true);
}

// ---- operations
torch::Tensor chain(torch::Tensor x) {
  auto y = x.t().contiguous().view({-1}).unsqueeze(0).expand({2, -1}) * 2 + 1;
  return (y - x.sum()).abs().clamp(0.5, 3).pow(2).mean({1}, /*keepdim=*/true);
}
std::tuple<torch::Tensor, torch::Tensor> largest(torch::Tensor x) { return at::max(x, 1, true); }
torch::Tensor convolved(torch::Tensor x, torch::Tensor w, c10::optional<torch::Tensor> b) {
  return torch::conv2d(x, w, b, /*stride=*/{2, 1}, /*padding=*/1, /*dilation=*/{1, 1}, /*groups=*/1);
}
torch::Tensor joined(std::vector<torch::Tensor> list) { return torch::cat({list[0], torch::stack(list, 0)[1]}, 0); }
torch::Tensor sliced(torch::Tensor x) {
  using namespace torch::indexing;
  x.index_put_({0, Slice(0, 2)}, 7);
  x[1][0] = 9;
  return x.index({Slice(None, None, 2), None, "..."});
}
torch::Tensor made(torch::Tensor x) {
  auto options = torch::TensorOptions().dtype(torch::kInt64).device(x.device());
  auto a = torch::arange(0, 6, options).reshape({2, 3});
  auto b = torch::full({2, 3}, 2, options) + torch::ones({3}, options) + torch::eye(3, options).sum(0);
  return at::cat({a, b, torch::tensor({1, 2, 3}, options).unsqueeze(0)});
}
torch::Tensor poisoned(torch::Tensor x) { return torch::empty({3, 4}, x.options()); }
std::vector<bool> places(torch::Tensor x) {
  float host[2] = {1, 2};
  return {torch::zeros({2}).is_cuda(), torch::zeros({2}, x.options()).is_cuda(), x.cpu().is_cuda(),
          x.cpu().to(x.device()).is_cuda(), x.to(torch::kFloat64).is_cuda(), torch::from_blob(host, {2}).is_cuda(),
          torch::empty_like(x).is_cuda(), torch::zeros({2}, torch::kCUDA).is_cuda(), (x.cpu() + 1).is_cuda()};
}
torch::Tensor from_memory() {
  static float memory[6] = {0, 1, 2, 3, 4, 5};
  return torch::from_blob(memory, {2, 3}, torch::kFloat32).clone();
}
int64_t grown(torch::Tensor x) {
  x.resize_({5, 2});
  return x.size(0) * 100 + x.numel();
}
float item_of(torch::Tensor x) { return x.sum().item<float>() + x.max().item().to<float>(); }
torch::Tensor accessed(torch::Tensor x) {
  auto y = torch::empty_like(x);
  auto in = x.accessor<float, 2>();
  auto out = y.packed_accessor32<float, 2>();
  for (int i = 0; i < in.size(0); ++i)
    for (int j = 0; j < in.size(1); ++j) out[i][j] = in[i][j] + 1;
  return y;
}
std::vector<torch::Tensor> split_up(torch::Tensor x) { return x.split(2, 0); }
std::string shown(torch::Tensor x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

// ---- exceptions
void fails(int64_t which, torch::Tensor x) {
  switch (which) {
    case 0: TORCH_CHECK(x.dim() == 9, "want ", 9, " dims, got ", x.dim(), " of ", x.sizes()); break;
    case 1: TORCH_CHECK(x.dim() == 9); break;
    case 2: x.data_ptr<double>(); break;
    case 3: x.size(7); break;
    case 4: AT_DISPATCH_FLOATING_TYPES(torch::kInt, "my_kernel", [&] {}); break;
    case 5: torch::matmul(x, torch::zeros({77, 2}, x.options())); break;
    case 6: throw std::invalid_argument("bad value");
    case 7: throw std::runtime_error("plain");
    case 8: throw std::out_of_range("past the end");
    case 9: throw 5;
    case 10: TORCH_CHECK_EQ(x.dim(), 9); break;
    case 11: AT_ERROR("stop ", 1); break;
    case 12: C10_CUDA_CHECK(cudaErrorInvalidConfiguration); break;
    case 13: throw py::value_error("py value");
    case 14: torch::Tensor().size(0); break;
    case 15: x.accessor<float, 3>(); break;
    case 16: TORCH_CHECK_NOT_IMPLEMENTED(false, "later"); break;
    case 17: TORCH_CHECK_INDEX(false, "index"); break;
  }
}
std::string caught(torch::Tensor x) {
  try {
    torch::matmul(x, torch::zeros({77, 2}, x.options()));
  } catch (const c10::Error& e) {
    return std::string("c10: ") + e.what();
  }
  return "";
}
void warned() { TORCH_WARN("careful ", 3); }

// ---- kernels
template <typename scalar_t>
__global__ void scale_kernel(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int64_t n, float by) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = static_cast<scalar_t>(static_cast<at::opmath_type<scalar_t>>(x[i]) * by);
}
torch::Tensor scaled(torch::Tensor x, double by) {
  TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scaled", ([&] {
    scale_kernel<scalar_t><<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n, by);
  }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
__global__ void overrun_kernel(float* y, int n) { y[threadIdx.x + n] = 1; }
void overrun(torch::Tensor y) { overrun_kernel<<<1, 1>>>(y.data_ptr<float>(), y.numel()); }
void too_wide(torch::Tensor x) { scale_kernel<float><<<1, 2048>>>(x.data_ptr<float>(), x.data_ptr<float>(), 1, 1.f); }
void on_host() {
  auto x = torch::zeros({4});
  scale_kernel<float><<<1, 4>>>(x.data_ptr<float>(), x.data_ptr<float>(), 4, 2.f);
}
void by_address(int64_t address, int n) {
  scale_kernel<float><<<1, 32>>>((const float*)address, (float*)address, n, 3.f);
}

static torch::Tensor kept;
void keep(torch::Tensor x) { kept = x; }
torch::Tensor recall() { return kept; }
void forget() { kept = torch::Tensor(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "test functions";
  m.def("same", &same, "gives it back", py::arg("x"));
  m.def("undefined", &undefined);
  m.def("no_bias", &no_bias, py::arg("bias") = py::none());
  m.def("total", &total);
  m.def("product", &product, py::arg("sizes") = std::vector<int64_t>{2, 3});
  m.def("reversed", &reversed);
  m.def("triple", &triple, py::arg("x"), py::arg("f") = 0.5, py::arg("s") = "text");
  m.def("named", &named);
  m.def("dtype_name", &dtype_name);
  m.def("number", &number);
  m.def("nothing", &nothing, py::call_guard<py::gil_scoped_release>());
  m.def("narrow", &narrow);
  m.def("byte", &byte);
  m.def("flag", &flag);
  m.def("pair", &pair);
  m.def("overloaded", py::overload_cast<torch::Tensor>(&overloaded));
  m.def("overloaded", py::overload_cast<const std::string&>(&overloaded));
  m.def("adder", Adder{5});
  m.def("lambda", [](const torch::Tensor& x, int64_t d) { return x.size(d); }, py::arg("x"), py::arg("d") = -1);
  m.def("metadata", &metadata);
  m.def("told", &told);
  m.def("chain", &chain);
  m.def("largest", &largest);
  m.def("convolved", &convolved);
  m.def("joined", &joined);
  m.def("sliced", &sliced);
  m.def("made", &made);
  m.def("poisoned", &poisoned);
  m.def("places", &places);
  m.def("from_memory", &from_memory);
  m.def("grown", &grown);
  m.def("item_of", &item_of);
  m.def("accessed", &accessed);
  m.def("split_up", &split_up);
  m.def("shown", &shown);
  m.def("fails", &fails);
  m.def("caught", &caught);
  m.def("warned", &warned);
  m.def("scaled", &scaled);
  m.def("overrun", &overrun);
  m.def("too_wide", &too_wide);
  m.def("on_host", &on_host);
  m.def("by_address", &by_address);
  m.def("keep", &keep);
  m.def("recall", &recall);
  m.def("forget", &forget);
}
