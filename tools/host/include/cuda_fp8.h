#error "musahost: unsupported construct: fp8 (cuda_fp8.h)"
