#error "musahost: unsupported construct: NCCL (nccl.h)"
