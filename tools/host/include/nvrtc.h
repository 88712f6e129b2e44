#error "musahost: unsupported construct: NVRTC (nvrtc.h)"
