// Reads ELF symbol tables.
#include "symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

// A file in memory; every piece that is read is checked to lie inside.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat about;
    if (fstat(file, &about) == 0 && about.st_size > 0) {
      void* memory = mmap(nullptr, about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
      if (memory != MAP_FAILED) {
        data_ = static_cast<const char*>(memory);
        size_ = about.st_size;
      }
    }
    close(file);
  }
  MappedFile(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_) munmap(const_cast<char*>(data_), size_);
  }

  template <class T>
  const T* at(size_t offset, size_t count = 1) const {
    if (offset > size_ || count > (size_ - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(data_ + offset);
  }
  const char* string_at(size_t offset) const {
    const char* text = at<char>(offset);
    return text && memchr(text, 0, size_ - offset) ? text : "";
  }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

std::string readable(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : name;
  free(text);
  return result;
}

void collect(const MappedFile& file, const ElfW(Shdr) & table, size_t names, std::vector<Symbol>& out) {
  const size_t count = table.sh_size / sizeof(ElfW(Sym));
  const ElfW(Sym)* symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
  for (size_t i = 0; symbols && i < count; ++i) {
    const ElfW(Sym)& s = symbols[i];
    const bool is_variable = (s.st_info & 0xf) == STT_OBJECT && s.st_shndx != SHN_UNDEF;
    if (is_variable && s.st_size) {
      out.push_back({s.st_value, s.st_size, readable(file.string_at(names + s.st_name))});
    }
  }
}

}  // namespace

std::vector<Symbol> variables_of(const char* path) {
  std::vector<Symbol> found;
  const MappedFile file(path);
  const auto* header = file.at<ElfW(Ehdr)>(0);
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return found;
  const auto* sections = file.at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  for (int i = 0; sections && i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    collect(file, sections[i], sections[sections[i].sh_link].sh_offset, found);
  }
  std::sort(found.begin(), found.end(),
            [](const Symbol& a, const Symbol& b) { return a.offset < b.offset; });
  return found;
}

}  // namespace musahost
