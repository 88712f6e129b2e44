#error "musahost: unsupported construct: cuFFT (cufft.h)"
