#error "musahost: unsupported construct: wmma (mma.h)"
