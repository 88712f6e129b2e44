#error "musahost: unsupported construct: muBLAS (mublas.h)"
