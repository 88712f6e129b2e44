"""The cuda target: real NVIDIA GPUs; without one it compiles and says so."""
