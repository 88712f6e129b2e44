#error "musahost: unsupported construct: cuRAND host API (curand.h)"
