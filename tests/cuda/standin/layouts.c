// Sizes and offsets of what card_memory.py passes to the driver, as NVIDIA's cuda.h has them.
#include <cuda.h>
#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf(#type " %zu\n", sizeof(type))
#define PLACE(type, field) printf(#type "." #field " %zu\n", offsetof(type, field))

int main(void) {
  SIZE(CUmemLocation);
  PLACE(CUmemLocation, type);
  PLACE(CUmemLocation, id);
  SIZE(CUmemAllocationProp);
  PLACE(CUmemAllocationProp, type);
  PLACE(CUmemAllocationProp, requestedHandleTypes);
  PLACE(CUmemAllocationProp, location);
  PLACE(CUmemAllocationProp, win32HandleMetaData);
  PLACE(CUmemAllocationProp, allocFlags);
  PLACE(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
  PLACE(CUmemAllocationProp, allocFlags.usage);
  SIZE(CUmemAccessDesc);
  PLACE(CUmemAccessDesc, location);
  PLACE(CUmemAccessDesc, flags);
  SIZE(CUmemGenericAllocationHandle);
  SIZE(CUdeviceptr);
  printf("pinned %d\ndevice %d\nfile %d\nread_write %d\nminimum %d\n",
         CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE,
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
         CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  return 0;
}
