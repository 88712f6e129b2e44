#error "musahost: unsupported construct: muDNN (mudnn.h)"
