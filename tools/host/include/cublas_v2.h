#error "musahost: unsupported construct: cuBLAS (cublas_v2.h)"
