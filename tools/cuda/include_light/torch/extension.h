// torch/extension.h without torch's C++ front end: the same names for what kernels use.
#pragma once
#include <torch/types.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
