#error "musahost: unsupported construct: cuBLAS (cublas.h)"
