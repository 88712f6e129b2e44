#error "musahost: unsupported construct: wmma (mma.hpp)"
