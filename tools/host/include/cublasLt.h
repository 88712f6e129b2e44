#error "musahost: unsupported construct: cuBLASLt (cublasLt.h)"
