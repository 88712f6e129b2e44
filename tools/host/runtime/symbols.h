// Names and sizes of a library's variables, from its symbol table.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace musahost __attribute__((visibility("hidden"))) {

struct Symbol {
  uintptr_t offset;  // from where the library is loaded
  size_t bytes;
  std::string name;
};

// The variables of the library in `path`, by offset. Empty where the file cannot be read or is stripped.
std::vector<Symbol> variables_of(const char* path);

}  // namespace musahost
