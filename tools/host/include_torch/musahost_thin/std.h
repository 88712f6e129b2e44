// The parts of the standard library that torch's own headers bring along, and candidates lean on.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>
#if !defined(__CUDACC__) && !defined(MUSAHOST_THIN_LIBRARY)
// Slow to parse, and of no use to nvcc, which only reads the kernels.
#include <chrono>
#include <iomanip>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_set>
#endif
