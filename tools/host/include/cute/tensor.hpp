#error "musahost: unsupported construct: CuTe (cute/tensor.hpp)"
