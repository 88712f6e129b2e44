#error "musahost: unsupported construct: cuSPARSE (cusparse.h)"
