// Every piece of device memory has two addresses. The one that candidates see lies in an arena whose pages
// are closed but for launches; by others torch and cudaMemcpy use the same pages. So a load or store of host
// code faults, as it does with a GPU, whichever thread it comes from. While forward runs the other addresses
// are closed as well (`hiding`), but for an operator of torch's or a copy: Python finds them.
#include "device.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "faults.h"
#include "functions.h"
#include "host_access.h"
#include "modules.h"
#include "musahost/abi.h"
#include "registry.h"
#include "report.h"
#include "threads.h"

namespace musahost __attribute__((visibility("hidden"))) {
namespace {

constexpr size_t kArenaBytes = size_t{64} << 30;  // reserved, never used up
constexpr size_t kPage = 4096;
constexpr ptrdiff_t kStackReach = 1 << 20;

struct Piece {
  size_t bytes = 0;  // as asked for
  size_t room = 0;   // whole pages
  char* alias = nullptr;
  bool shared = false;
  bool fresh = true;  // no kernel can have written to it yet
  bool host = false;  // the other way round: a tensor of the CPU's, closed while kernels run
  std::string name = {};
};

// The same pages by an address that candidates are not told.
struct Side {
  size_t room = 0;
  const char* seen_as = nullptr;  // the address that they are told
  int lent = 0;                   // operators and copies under way that use it
};

struct Device {
  std::mutex mutex;
  char* arena = nullptr;
  size_t next = 0;
  std::map<char*, Piece> pieces;  // by the address that candidates see
  int open = 0;                   // launches under way
  std::map<char*, Side> sides;
  bool hiding = false;
  std::map<uintptr_t, size_t> symbols;  // that host code asked the address of, with their sizes
};

// Never destroyed: candidates free memory in static destructors.
Device& device() {
  static Device* const instance = new Device;
  return *instance;
}

std::atomic<bool> guarding{false};
std::atomic<bool> refusing{true};
std::atomic<size_t> host_bytes{0};
struct sigaction before;

size_t rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

bool is_known_symbol(uintptr_t address) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  auto found = d.symbols.upper_bound(address);
  if (found == d.symbols.begin()) return false;
  --found;
  return address - found->first < found->second;
}

// The piece or side that holds an address, or the end.
template <typename Map>
typename Map::iterator holder_of(Map& map, const void* address) {
  char* const at = static_cast<char*>(const_cast<void*>(address));
  auto found = map.upper_bound(at);
  if (found == map.begin()) return map.end();
  --found;
  return static_cast<size_t>(at - found->first) < found->second.room ? found : map.end();
}

std::map<char*, Piece>::iterator piece_at(Device& d, const void* address) { return holder_of(d.pieces, address); }

void cover(const Device& d, char* at, const Side& side) {
  mprotect(at, side.room, d.hiding && !side.lent ? PROT_NONE : PROT_READ | PROT_WRITE);
}

// Notes that an operator or copy begins (1) or ends (-1) to use the memory; false where it is no side's.
bool lend(const void* address, int step) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  const auto side = holder_of(d.sides, address);
  if (side == d.sides.end()) return false;
  side->second.lent += step;
  if (side->second.lent == (step > 0)) cover(d, side->first, side->second);
  return true;
}

class Lent {
 public:
  explicit Lent(const void* address) : address_(address), known_(lend(address, 1)) {}
  Lent(const Lent&) = delete;
  ~Lent() {
    if (known_) lend(address_, -1);
  }

 private:
  const void* address_;
  bool known_;
};

bool in_arena(const Device& d, const void* address) {
  return d.arena && static_cast<size_t>(static_cast<const char*>(address) - d.arena) < kArenaBytes;
}

// A place in the arena with a closed page on each side; addresses are used again as late as can be.
char* place_for(Device& d, size_t room) {
  if (!d.arena) {
    void* memory = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    d.arena = static_cast<char*>(memory);
    d.next = kPage;
  }
  for (int turn = 0; turn < 2; ++turn) {
    while (d.next + room + kPage <= kArenaBytes) {
      char* const at = d.arena + d.next;
      auto after = d.pieces.lower_bound(at);
      if (after == d.pieces.end() || at + room + kPage <= after->first) {
        d.next += room + kPage;
        return at;
      }
      d.next = (after->first - d.arena) + after->second.room + kPage;
    }
    d.next = kPage;
  }
  return nullptr;
}

int other(int protection) { return protection == PROT_NONE ? PROT_READ | PROT_WRITE : PROT_NONE; }

void protect(Device& d, int protection) {
  for (auto& [address, piece] : d.pieces) {
    mprotect(address, piece.room, piece.host ? other(protection) : protection);
    piece.fresh = false;
  }
}

// Maps the file's pages twice and enters them.
char* enter(Device& d, int file, size_t bytes, bool shared, bool host = false) {
  const size_t room = rounded(bytes);
  char* const at = place_for(d, room);
  if (!at) return nullptr;
  void* alias = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (alias == MAP_FAILED) return nullptr;
  const int protection = (d.open != 0) != host ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (mmap(at, room, protection, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    munmap(alias, room);
    return nullptr;
  }
  d.pieces[at] = {bytes, room, static_cast<char*>(alias), shared, true, host};
  // What stands behind the tensor in its last page is no zero, as everywhere.
  memset(static_cast<char*>(alias) + bytes, 0xff, room - bytes);
  return at;
}

// The end of `enter`, once the alias is filled.
void add_alias(Device& d, char* at) {
  const Piece& piece = d.pieces[at];
  cover(d, piece.alias, d.sides[piece.alias] = {piece.room, at});
}

// Open again.
void remove_alias(Device& d, const Piece& piece) {
  if (d.sides.erase(piece.alias)) mprotect(piece.alias, piece.room, PROT_READ | PROT_WRITE);
}

void leave(Device& d, std::map<char*, Piece>::iterator piece) {
  d.sides.erase(piece->second.alias);
  munmap(piece->second.alias, piece->second.room);
  mmap(piece->first, piece->second.room, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  d.pieces.erase(piece);
}

void on_fault(int signal, siginfo_t* info, void* raw) {
  Device& d = device();
  const bool ours = info->si_code > 0 && in_arena(d, info->si_addr);
  if (ours) {
    const std::lock_guard lock(d.mutex);
    const auto piece = piece_at(d, info->si_addr);
    if (piece != d.pieces.end() && (piece->second.shared || d.open)) {
      if (piece->second.shared && !piece->second.fresh) host_bytes += piece->second.bytes;
      mprotect(piece->first, piece->second.room, PROT_READ | PROT_WRITE);
      return;
    }
  }
  const void* seen_as = ours ? info->si_addr : nullptr;
  if (!ours && info->si_code > 0) {
    const std::lock_guard lock(d.mutex);
    const auto side = holder_of(d.sides, info->si_addr);
    if (side != d.sides.end()) seen_as = side->second.seen_as + (static_cast<char*>(info->si_addr) - side->first);
  }
  if (seen_as) tell_host_access(seen_as, is_write(*static_cast<ucontext_t*>(raw)));
  sigaction(signal, &before, nullptr);  // the instruction faults again
}

}  // namespace

void* allocate_device(size_t bytes, bool shared, const std::string& name) {
  if (!guarding || !bytes) return nullptr;
  const int file = memfd_create("musahost", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  char* made = nullptr;
  if (ftruncate(file, static_cast<off_t>(rounded(bytes))) == 0) {
    Device& d = device();
    const std::lock_guard lock(d.mutex);
    made = enter(d, file, bytes, shared);
    if (made) {
      memset(d.pieces[made].alias, 0xff, rounded(bytes));
      add_alias(d, made);
    }
  }
  close(file);
  if (made) musahost_register(made, bytes, name.c_str());
  return made;
}

bool free_device(void* address) {
  Device& d = device();
  {
    const std::lock_guard lock(d.mutex);
    const auto piece = d.pieces.find(static_cast<char*>(address));
    if (piece == d.pieces.end()) return false;
    leave(d, piece);
  }
  musahost_unregister(address);
  return true;
}

std::string host_tensor_at(const void* address) {
  Device& d = device();
  if (!in_arena(d, address)) return "";
  const std::lock_guard lock(d.mutex);
  const auto piece = piece_at(d, address);
  return piece != d.pieces.end() && piece->second.host ? piece->second.name : "";
}

std::string host_memory_at(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (!guarding || !refusing || at < kPage || in_arena(device(), address)) return "";
  if (is_code(at)) {
    return is_known_function(at) ? "" : "a function of host code (a __device__ variable has the device's)";
  }
  if (const Region* region = global_region(at, 1)) {
    if (region->kind == RegionKind::kTensor || is_known_symbol(at)) return "";
    return name_of(*region) + ", by its address in host code (cudaGetSymbolAddress() has the device's)";
  }
  if (!is_mapped(at)) return "";
  char here;
  const auto distance = static_cast<const char*>(address) - &here;
  return distance > 0 && distance < kStackReach ? "a local variable of host code" : "memory of the host's";
}

void pin_host_tensor(const void* address) {
  Device& d = device();
  if (!in_arena(d, address)) return;
  const std::lock_guard lock(d.mutex);
  const auto piece = piece_at(d, address);
  if (piece == d.pieces.end() || !piece->second.host) return;
  piece->second.host = false;
  piece->second.shared = true;
  mprotect(piece->first, piece->second.room, PROT_READ | PROT_WRITE);
}

DeviceAccess::DeviceAccess() {
  if (!guarding) return;
  note_threads_beside();
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  if (d.open++ == 0) protect(d, PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  if (d.open && --d.open == 0) protect(d, PROT_NONE);
}

}  // namespace musahost

using namespace musahost;

void musahost_set_guard(int on) {
  guarding = on != 0;
  static bool installed = false;
  if (!on || installed) return;
  installed = true;
  void* frame;
  backtrace(&frame, 1);  // its first call loads the unwinder, which a handler must not
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before);
}

void musahost_refuse_host_pointers(int on) { refusing = on != 0; }

void* musahost_device_map(int file, size_t bytes, const char* name, int host) {
  Device& d = device();
  char* made;
  {
    const std::lock_guard lock(d.mutex);
    made = enter(d, file, bytes, false, host != 0);
    if (made) d.pieces[made].name = name;
    if (made && !host) add_alias(d, made);
  }
  if (made && !host) musahost_register(made, bytes, name);
  return made;
}

void musahost_device_give(void* address, int host) {
  Device& d = device();
  std::string name;
  size_t bytes = 0;
  {
    const std::lock_guard lock(d.mutex);
    const auto found = d.pieces.find(static_cast<char*>(address));
    if (found == d.pieces.end() || found->second.host == (host != 0)) return;
    Piece& piece = found->second;
    piece.host = host != 0;
    mprotect(address, piece.room, (d.open != 0) != piece.host ? PROT_READ | PROT_WRITE : PROT_NONE);
    if (host) {
      remove_alias(d, piece);
    } else {
      add_alias(d, found->first);
    }
    name = piece.name;
    bytes = piece.bytes;
  }
  if (host) {
    musahost_unregister(address);
  } else {
    musahost_register(address, bytes, name.c_str());
  }
}

void musahost_device_unmap(void* address) { free_device(address); }

void* musahost_device_alias(const void* address) {
  Device& d = device();
  if (in_arena(d, address)) {
    const std::lock_guard lock(d.mutex);
    const auto piece = piece_at(d, address);
    if (piece != d.pieces.end() && !piece->second.host) {
      return piece->second.alias + (static_cast<const char*>(address) - piece->first);
    }
  }
  return const_cast<void*>(address);
}

void musahost_set_hiding(int on) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  d.hiding = on != 0;
  for (const auto& [at, side] : d.sides) cover(d, at, side);
}

void musahost_device_hide(void* at, size_t bytes, const void* seen_as) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  char* const first = static_cast<char*>(at);
  cover(d, first, d.sides[first] = {rounded(bytes), static_cast<const char*>(seen_as)});
}

void musahost_device_show(void* at) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  const auto side = d.sides.find(static_cast<char*>(at));
  if (side == d.sides.end()) return;
  mprotect(at, side->second.room, PROT_READ | PROT_WRITE);
  d.sides.erase(side);
}

int musahost_device_lend(const void* address, int step) { return lend(address, step); }

size_t musahost_take_host_bytes() { return host_bytes.exchange(0); }

void musahost_note_symbol(const void* address, size_t bytes) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  d.symbols[reinterpret_cast<uintptr_t>(address)] = bytes;
}

void musahost_note_host_bytes(size_t bytes) { host_bytes += bytes; }

void musahost_copy(void* to, const void* from, size_t bytes) {
  void* const to_alias = musahost_device_alias(to);
  const void* const from_alias = musahost_device_alias(from);
  if (to_alias == to && from_alias != from) host_bytes += bytes;
  const Lent target(to_alias), source(from_alias);
  memmove(to_alias, from_alias, bytes);
}

void musahost_copy_from_symbol(void* to, const void* from, size_t bytes) {
  void* const to_alias = musahost_device_alias(to);
  if (to_alias == to) host_bytes += bytes;
  note_functions(from, bytes);
  const Lent target(to_alias);
  memmove(to_alias, from, bytes);
}

void musahost_fill(void* to, int value, size_t bytes) {
  void* const alias = musahost_device_alias(to);
  const Lent target(alias);
  memset(alias, value, bytes);
}
