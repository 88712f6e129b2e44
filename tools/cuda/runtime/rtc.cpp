// Compiles device code with NVRTC: rtc LIBRARY SOURCE CUBIN SYMBOLS KERNELS OPTION...
//
// KERNELS are the names of kernel templates, with commas between; their instantiations are read
// from SYMBOLS, the demangled symbols of the host part, one a line. The log goes to stdout; its
// first line says which NVRTC it was. Exit status 0 exactly when CUBIN was written.
#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {
using Program = void*;

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

std::string text_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "void ns::k<float, 4>(float*)" -> "ns::k<float, 4>"; empty where it is no instantiation.
std::string expression(const std::string& line) {
  int angle = 0;
  size_t end = line.size();
  bool seen = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '<') ++angle, seen = true;
    if (line[i] == '>') --angle;
    if (line[i] == '(' && angle == 0 && i > 0) {
      end = i;
      break;
    }
  }
  if (!seen) return "";
  const std::string prefix = "void ";
  const size_t start = line.compare(0, prefix.size(), prefix) == 0 ? prefix.size() : 0;
  return line.substr(start, end - start);
}

// "ns::k<float>" -> "k"
std::string base(const std::string& name) {
  const std::string plain = name.substr(0, name.find('<'));
  const size_t colon = plain.rfind("::");
  return colon == std::string::npos ? plain : plain.substr(colon + 2);
}
}  // namespace

int main(int count, char** words) {
  if (count < 6) return 2;
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::printf("rtc: %s\n", dlerror());
    return 3;
  }
  const auto version = symbol<int (*)(int*, int*)>(library, "nvrtcVersion");
  const auto create = symbol<int (*)(Program*, const char*, const char*, int, const char* const*,
                                     const char* const*)>(library, "nvrtcCreateProgram");
  const auto name = symbol<int (*)(Program, const char*)>(library, "nvrtcAddNameExpression");
  const auto compile =
      symbol<int (*)(Program, int, const char* const*)>(library, "nvrtcCompileProgram");
  const auto log_size = symbol<int (*)(Program, size_t*)>(library, "nvrtcGetProgramLogSize");
  const auto log = symbol<int (*)(Program, char*)>(library, "nvrtcGetProgramLog");
  const auto cubin_size = symbol<int (*)(Program, size_t*)>(library, "nvrtcGetCUBINSize");
  const auto cubin = symbol<int (*)(Program, char*)>(library, "nvrtcGetCUBIN");
  if (!version || !create || !name || !compile || !log_size || !log || !cubin_size || !cubin) {
    std::printf("rtc: %s lacks a function of NVRTC\n", words[1]);
    return 3;
  }
  int major = 0, minor = 0;
  version(&major, &minor);
  std::printf("nvrtc %d.%d\n", major, minor);

  const std::string source = text_of(words[2]);
  Program program = nullptr;
  if (create(&program, source.c_str(), words[2], 0, nullptr, nullptr)) return 1;
  std::map<std::string, int> wanted;
  std::stringstream names(words[5]);
  for (std::string kernel; std::getline(names, kernel, ',');) wanted[kernel] = 0;
  std::stringstream symbols(text_of(words[4]));
  for (std::string line; std::getline(symbols, line);) {
    const std::string found = expression(line);
    const auto entry = wanted.find(base(found));
    if (found.empty() || entry == wanted.end()) continue;
    if (name(program, found.c_str())) return 1;
    ++entry->second;
  }
  for (const auto& [kernel, uses] : wanted)
    if (!uses) {
      std::printf("rtc: no instantiation of %s in the host part\n", kernel.c_str());
      return 1;
    }

  const int status = compile(program, count - 6, words + 6);
  size_t size = 0;
  log_size(program, &size);
  std::string text(size, '\0');
  log(program, text.data());
  std::printf("%s\n", text.c_str());
  if (status) return 1;
  if (cubin_size(program, &size) || !size) return 1;
  std::string code(size, '\0');
  if (cubin(program, code.data())) return 1;
  std::ofstream(words[3], std::ios::binary) << code;
  return 0;
}
