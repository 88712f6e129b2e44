#error "musahost: unsupported construct: fp8 (musa_fp8.h)"
