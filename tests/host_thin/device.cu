// Host code that touches device memory by itself, and what it may do instead.
#include <torch/extension.h>

#include <cstring>
#include <thread>
#include <vector>

__global__ void scale_kernel(const float* x, float* o, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = x[i] * factor;
}
torch::Tensor scaled(torch::Tensor x, double factor) {
  auto in = x.contiguous(), o = torch::empty(x.sizes(), x.options());
  const int n = x.numel();
  scale_kernel<<<(n + 127) / 128, 128>>>(in.data_ptr<float>(), o.data_ptr<float>(), n, factor);
  return o;
}

double first_on_host(torch::Tensor x) { return *x.data_ptr<float>(); }
void set_on_host(torch::Tensor x, double value) { *x.data_ptr<float>() = value; }
double accessed_on_host(torch::Tensor x) { return x.accessor<float, 2>()[1][1]; }
double first_in_a_thread(torch::Tensor x) {
  double value = 0;
  std::thread([&] { value = *x.data_ptr<float>(); }).join();
  return value;
}
double copied_by_memcpy(torch::Tensor x) {
  std::vector<float> values(x.numel());
  std::memcpy(values.data(), x.data_ptr<float>(), x.nbytes());
  return values.back();
}
double allocated_on_host() {
  float* memory;
  cudaMalloc(&memory, 64);
  return memory[0];
}

int64_t address_of(torch::Tensor x) { return reinterpret_cast<int64_t>(x.data_ptr<float>()); }
double item_of(torch::Tensor x) { return x[0][0].item<float>(); }
double first_of_cpu_copy(torch::Tensor x) { return *x.cpu().data_ptr<float>(); }
double first_of_cpp_cpu_tensor() { return *torch::full({3}, 5.0, torch::kFloat).data_ptr<float>(); }
double first_by_cuda_memcpy(torch::Tensor x) {
  float value;
  cudaMemcpy(&value, x.data_ptr<float>(), sizeof value, cudaMemcpyDeviceToHost);
  return value;
}
double all_by_cuda_memcpy(torch::Tensor x) {
  std::vector<float> values(x.numel());
  cudaMemcpy(values.data(), x.data_ptr<float>(), x.nbytes(), cudaMemcpyDeviceToHost);
  return values.back();
}
torch::Tensor through_cuda_malloc(torch::Tensor x) {
  auto o = torch::empty_like(x);
  float* memory;
  cudaMalloc(&memory, x.nbytes());
  cudaMemcpy(memory, x.data_ptr<float>(), x.nbytes(), cudaMemcpyDeviceToDevice);
  cudaMemcpy(o.data_ptr<float>(), memory, x.nbytes(), cudaMemcpyDeviceToDevice);
  cudaFree(memory);
  return o;
}
torch::Tensor from_blob_of(torch::Tensor x) {
  return torch::from_blob(x.data_ptr<float>(), x.sizes(), x.options()).clone();
}
double first_of_a_blob(torch::Tensor x) {
  return *torch::from_blob(x.data_ptr<float>(), x.sizes(), torch::kFloat).data_ptr<float>();
}
int64_t grown(torch::Tensor x) {
  x.resize_({5, 2});
  return x.size(0) * 100 + x.numel();
}
double managed_sum(int64_t n) {
  float* values;
  cudaMallocManaged(&values, n * sizeof(float));
  for (int64_t i = 0; i < n; ++i) values[i] = 1;
  scale_kernel<<<(n + 127) / 128, 128>>>(values, values, n, 2.f);
  cudaDeviceSynchronize();
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += values[i];
  cudaFree(values);
  return sum;
}
__global__ void overread_kernel(const float* x, float* o, int n) { *o = x[n]; }
torch::Tensor overread(torch::Tensor x) {
  auto o = torch::empty({}, x.options());
  overread_kernel<<<1, 1>>>(x.data_ptr<float>(), o.data_ptr<float>(), x.numel());
  return o;
}

void scaled_into(torch::Tensor x, double by) {
  float* p = x.data_ptr<float>();
  scale_kernel<<<(x.numel() + 127) / 128, 128>>>(p, p, x.numel(), by);
}
float on_host[4];
__device__ float on_device[4];
__managed__ __device__ float managed[4];
void given(float* p) { scale_kernel<<<1, 4>>>(p, p, 4, 2.f); }
void given_a_local() {
  float local[4] = {};
  given(local);
}
void given_a_vector() {
  std::vector<float> values(4);
  given(values.data());
}
void given_a_variable() { given(on_host); }
void given_a_device_variable() { given(on_device); }
void given_a_symbol() {
  float* p;
  cudaGetSymbolAddress((void**)&p, on_device);
  given(p);
}
void given_managed() { given(managed); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scaled", &scaled);
  m.def("first_on_host", &first_on_host);
  m.def("set_on_host", &set_on_host);
  m.def("accessed_on_host", &accessed_on_host);
  m.def("first_in_a_thread", &first_in_a_thread);
  m.def("copied_by_memcpy", &copied_by_memcpy);
  m.def("allocated_on_host", &allocated_on_host);
  m.def("address_of", &address_of);
  m.def("item_of", &item_of);
  m.def("first_of_cpu_copy", &first_of_cpu_copy);
  m.def("first_of_cpp_cpu_tensor", &first_of_cpp_cpu_tensor);
  m.def("first_by_cuda_memcpy", &first_by_cuda_memcpy);
  m.def("all_by_cuda_memcpy", &all_by_cuda_memcpy);
  m.def("through_cuda_malloc", &through_cuda_malloc);
  m.def("from_blob_of", &from_blob_of);
  m.def("first_of_a_blob", &first_of_a_blob);
  m.def("grown", &grown);
  m.def("managed_sum", &managed_sum);
  m.def("overread", &overread);
  m.def("scaled_into", &scaled_into);
  m.def("given_a_local", &given_a_local);
  m.def("given_a_vector", &given_a_vector);
  m.def("given_a_variable", &given_a_variable);
  m.def("given_a_device_variable", &given_a_device_variable);
  m.def("given_a_symbol", &given_a_symbol);
  m.def("given_managed", &given_managed);
}
