// Stands before the launches of a module that nvcc compiled: the linker's --wrap brings them here.
// While they are held back they succeed and do nothing, as those of level split do by themselves.
#include <cuda_runtime_api.h>

extern "C" __attribute__((visibility("default"))) int musacuda_held_back = 0;

// Weak: no version of the runtime has all of them.
#define HOLD(name, parameters, arguments)                              \
  extern "C" __attribute__((weak)) cudaError_t __real_##name parameters; \
  extern "C" __attribute__((visibility("hidden"))) cudaError_t __wrap_##name parameters { \
    return musacuda_held_back ? cudaSuccess : __real_##name arguments; \
  }
#define HOLD_BOTH(name, parameters, arguments) \
  HOLD(name, parameters, arguments) HOLD(name##_ptsz, parameters, arguments)

#define KERNEL (const void* kernel, dim3 grid, dim3 block, void** values, size_t shared, cudaStream_t s)
HOLD_BOTH(cudaLaunchKernel, KERNEL, (kernel, grid, block, values, shared, s))
HOLD_BOTH(__cudaLaunchKernel, KERNEL, (kernel, grid, block, values, shared, s))
HOLD_BOTH(cudaLaunchCooperativeKernel, KERNEL, (kernel, grid, block, values, shared, s))
HOLD_BOTH(cudaLaunchKernelExC, (const cudaLaunchConfig_t* config, const void* kernel, void** values),
          (config, kernel, values))
HOLD_BOTH(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t s), (graph, s))
