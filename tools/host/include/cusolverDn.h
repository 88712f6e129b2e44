#error "musahost: unsupported construct: cuSOLVER (cusolverDn.h)"
