// The driver's memory calls over files without a name, for tests without a card.
// Compiled against NVIDIA's own cuda.h, so that what Python passes has to fit it.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

static bool started = false;
static const size_t unit = 2 << 20;

static bool known(const CUmemAllocationProp *p) {
  return p->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         p->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
         p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && p->location.id == 0 &&
         p->win32HandleMetaData == nullptr && p->allocFlags.usage == 0;
}

static void *at(CUdeviceptr p) { return reinterpret_cast<void *>(static_cast<uintptr_t>(p)); }

extern "C" {
CUresult CUDAAPI cuInit(unsigned int flags) {
  started = true;
  return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *size, const CUmemAllocationProp *p,
                                               CUmemAllocationGranularity_flags option) {
  if (!started) return CUDA_ERROR_NOT_INITIALIZED;
  if (!known(p) || option != CU_MEM_ALLOC_GRANULARITY_MINIMUM) return CUDA_ERROR_INVALID_VALUE;
  *size = unit;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *p, unsigned long long flags) {
  if (!known(p) || flags != 0 || size == 0 || size % unit) return CUDA_ERROR_INVALID_VALUE;
  int file = memfd_create("card", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, size) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = file;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  return close(static_cast<int>(handle)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *p, size_t size, size_t alignment,
                                     CUdeviceptr wish, unsigned long long flags) {
  if (alignment || wish || flags || size % unit) return CUDA_ERROR_INVALID_VALUE;
  void *found = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = reinterpret_cast<uintptr_t>(found);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t size) {
  return munmap(at(p), size) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr p, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
  struct stat found;
  int file = static_cast<int>(handle);
  if (offset || flags || fstat(file, &found) != 0 || static_cast<size_t>(found.st_size) != size)
    return CUDA_ERROR_INVALID_VALUE;
  void *mapped = mmap(at(p), size, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0);
  return mapped == at(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr p, size_t size) {
  int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(at(p), size, PROT_NONE, how, -1, 0) == at(p) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr p, size_t size, const CUmemAccessDesc *access,
                                size_t count) {
  if (count != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      access->location.id != 0 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  return mprotect(at(p), size, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int *>(shareable) = fcntl(static_cast<int>(handle), F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *file,
                                                CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  int own = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(file)), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return CUDA_ERROR_INVALID_HANDLE;
  *handle = own;
  return CUDA_SUCCESS;
}
}
