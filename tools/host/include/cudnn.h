#error "musahost: unsupported construct: cuDNN (cudnn.h)"
