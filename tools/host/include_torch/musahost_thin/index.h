// at::indexing: what x.index({Slice(), None, 0}) takes.
#pragma once
#include "tensor.h"

namespace at {
namespace indexing {

enum class EllipsisIndexType { Ellipsis };
constexpr EllipsisIndexType Ellipsis = EllipsisIndexType::Ellipsis;
constexpr std::nullopt_t None = std::nullopt;

struct Slice {
  std::optional<int64_t> start, stop, step;
  Slice(std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt,
        std::optional<int64_t> step = std::nullopt)
      : start(start), stop(stop), step(step) {}
};

}  // namespace indexing

struct MUSAHOST_THIN_API TensorIndex {
  ::musahost::thin::Box box;
  TensorIndex(std::nullopt_t) {}
  TensorIndex(indexing::EllipsisIndexType);
  TensorIndex(const char* ellipsis);
  TensorIndex(int64_t index) : box(index) {}
  TensorIndex(int index) : box(index) {}
  template <class T, class = std::enable_if_t<std::is_same_v<T, bool>>>
  TensorIndex(T index) : box(index) {}
  TensorIndex(const indexing::Slice& slice);
  TensorIndex(const Tensor& tensor) : box(tensor) {}
  TensorIndex(const std::optional<Tensor>& tensor) : box(tensor) {}
};

namespace indexing {
using at::TensorIndex;
}

}  // namespace at
