#error "musahost: unsupported construct: CUTLASS (cutlass/cutlass.h)"
