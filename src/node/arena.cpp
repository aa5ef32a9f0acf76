#include "node/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/file_limit.h"
#include "base/units.h"

namespace comex {

namespace {

// Newer than the headers of some distributions we build on (Linux 6.3).
constexpr unsigned kNoExecSeal = 0x0008U;

// One slab's worth of huge pages is left in the pool: without it, each renewed slab would fall back to normal pages,
// and the huge ones it leaves would lie idle.
constexpr std::uint32_t kSpareHugeSlabs = 1;

// Pages of the pool of 2 MiB pages that nobody has and nobody has been promised.
std::uint64_t free_huge_pages() {
  const auto read_count = [](const char* path) {
    std::uint64_t count = 0;
    std::ifstream(path) >> count;
    return count;
  };
  const std::uint64_t free = read_count("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  const std::uint64_t promised = read_count("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages");
  return free - std::min(free, promised);
}

Error out_of_memory() {
  return Error{Errc::no_memory, "cannot allocate the memory to lend: the host has no more; lower --memory"};
}

Error cannot_lock(std::uint64_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return Error{Errc::io, fmt::format("cannot lock {} of memory: this process may lock {}; raise the limit (`ulimit -l "
                                     "unlimited`, or LimitMEMLOCK=infinity in the service), or use --no-lock",
                                     format_size(bytes), format_size(limit.rlim_cur))};
}

Error too_many_files(std::uint64_t needed, std::uint64_t limit) {
  return Error{Errc::io, fmt::format("cannot open the {0} files that the memory to lend needs: the limit is {1}; raise "
                                     "it (`ulimit -n {0}`, or LimitNOFILE={0} in the service)",
                                     needed, limit)};
}

// Asks the kernel, which alone knows how limits and capabilities combine: inaccessible memory can be locked without
// being allocated. Says "no" in a millisecond instead of after minutes of allocating.
Expected<void> check_lockable(std::uint64_t bytes) {
  void* probe = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_LOCKED, -1, 0);
  if (probe == MAP_FAILED) {
    if (errno == EAGAIN || errno == EPERM) return cannot_lock(bytes);
    return system_error("cannot reserve addresses for " + format_size(bytes));
  }
  ::munmap(probe, bytes);
  return {};
}

int create_memfd(unsigned flags) {
  const int fd = ::memfd_create("comex-slab", flags | kNoExecSeal);
  if (fd >= 0 || errno != EINVAL) return fd;
  return ::memfd_create("comex-slab", flags);  // a kernel before 6.3
}

int allocate_file(int fd, int mode, std::size_t bytes) {
  int result;
  do {
    result = ::fallocate(fd, mode, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result;
}

Expected<Fd> allocate_memfd(std::size_t bytes, bool huge) {
  Fd fd(create_memfd(MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0U)));
  if (!fd) return system_error("cannot create a file in memory");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 || allocate_file(fd.get(), 0, bytes) != 0) {
    if (errno == ENOMEM || errno == ENOSPC) return out_of_memory();
    return system_error("cannot allocate the memory to lend");
  }
  // Whoever gets this descriptor must not be able to make the node's own mapping fault or refuse writes.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal a file in memory");
  }
  return fd;
}

}  // namespace

unsigned slab_order_for(std::uint64_t bytes) {
  unsigned order = Arena::kMinSlabOrder;
  while ((bytes >> kPageShift >> order) > Arena::kMaxSlabs) ++order;
  return order;
}

Expected<void> Arena::check_files(std::uint64_t bytes) {
  const std::uint64_t needed = (bytes >> kPageShift >> slab_order_for(bytes)) + kSpareFiles;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return system_error("cannot read the limit of open files");
  if (limit.rlim_max < needed) return too_many_files(needed, limit.rlim_max);
  return {};
}

Expected<std::unique_ptr<Arena>> Arena::create(const Config& config) {
  const unsigned order = slab_order_for(config.bytes);
  const std::uint64_t slab_bytes = std::uint64_t{kPageSize} << order;
  const std::uint64_t slabs = config.bytes / slab_bytes;
  if (slabs == 0) {
    return Error{Errc::invalid, fmt::format("cannot lend {}: the least is {}; raise --memory",
                                            format_size(config.bytes), format_size(slab_bytes))};
  }
  if ((slabs << order) > UINT32_MAX) {  // frame numbers have 32 bits
    return Error{Errc::invalid,
                 "cannot lend " + format_size(config.bytes) + ": one node lends less than 16 TiB; lower --memory"};
  }
  if (auto allowed = check_files(config.bytes); !allowed) return std::move(allowed).error();
  raise_file_limit();
  if (config.lock) {
    // Huge pages need no locking. One slab more than is lent, for renew.
    const std::uint64_t huge = config.huge_pages ? free_huge_pages() * kHugePage / slab_bytes : 0;
    const std::uint64_t normal = slabs - std::min(slabs, huge > kSpareHugeSlabs ? huge - kSpareHugeSlabs : 0);
    if (auto lockable = check_lockable((normal + 1) * slab_bytes); !lockable) return std::move(lockable).error();
  }

  std::unique_ptr<Arena> arena(new Arena(order, config));
  if (auto reserved = arena->reserve(static_cast<std::uint32_t>(slabs)); !reserved) return std::move(reserved).error();
  if (!config.ahead) {
    if (auto placed = arena->place_nothing(0, arena->slabs()); !placed) return std::move(placed).error();
    return arena;
  }
  for (std::uint32_t index = 0; index < slabs; ++index) {
    if (auto made = arena->make(index); !made) return std::move(made).error();
    if (config.progress) config.progress(slab_bytes);
  }
  return arena;
}

Arena::Arena(unsigned slab_order, const Config& config)
    : slab_order_(slab_order), lock_(config.lock), ahead_(config.ahead), huge_pages_(config.huge_pages) {}

Arena::~Arena() {
  if (reservation_ != nullptr) ::munmap(reservation_, reserved_bytes_);
}

Expected<void> Arena::reserve(std::uint32_t slabs) {
  zeros_.reset(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  if (!zeros_) return system_error("cannot open /dev/zero");
  const std::size_t bytes = slabs * slab_bytes() + kHugePage;
  void* range = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return system_error("cannot reserve addresses for " + format_size(bytes));
  reservation_ = static_cast<std::byte*>(range);
  reserved_bytes_ = bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(range);
  base_ = reservation_ + ((address + kHugePage - 1) / kHugePage * kHugePage - address);
  slabs_.resize(slabs);
  return {};
}

Expected<void> Arena::make(std::uint32_t index) {
  auto slab = make_slab(kSpareHugeSlabs);
  if (!slab) return std::move(slab).error();
  if (auto placed = place(index, *slab); !placed) return placed;
  if (slab->huge) huge_slabs_.fetch_add(1, std::memory_order_relaxed);
  slabs_[index] = *std::move(slab);
  return {};
}

Expected<Arena::Slab> Arena::make_slab(std::uint32_t spare_slabs) const {
  if (huge_pages_ && free_huge_pages() >= (spare_slabs + std::uint64_t{1}) * (slab_bytes() / kHugePage)) {
    // May still fail, if somebody else is faster; then normal pages will do.
    if (auto memfd = allocate_memfd(slab_bytes(), true)) return Slab{*std::move(memfd), true, false};
  }
  auto memfd = allocate_memfd(slab_bytes(), false);
  if (!memfd) return std::move(memfd).error();
  return Slab{*std::move(memfd), false, false};
}

Expected<void> Arena::place(std::uint32_t index, const Slab& slab) {
  // MAP_LOCKED reports a limit reached before it touches what is mapped there, unlike an mlock afterwards. That it does
  // not report a failure to fill the page tables is no loss: the memory itself is there since fallocate.
  // Huge pages cannot be swapped, and are filled in the same way.
  // What is made when it is handed out is for the client: here it may never be touched.
  const int now = ahead_ ? MAP_POPULATE : 0;
  const int keep = lock_ && !slab.huge ? MAP_LOCKED : now;
  std::byte* address = slab_address(index);
  void* mapped =
      ::mmap(address, slab_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | keep, slab.memfd.get(), 0);
  if (mapped == MAP_FAILED) {
    if (keep == MAP_LOCKED && (errno == EAGAIN || errno == EPERM)) return cannot_lock(slabs() * slab_bytes());
    if (errno == ENOMEM) return out_of_memory();
    return system_error("cannot map the memory to lend");
  }
  ::madvise(address, slab_bytes(), MADV_DONTDUMP);  // clients' data have no place in a core file
  return {};
}

Expected<void> Arena::place_nothing(std::uint32_t index, std::uint32_t count) {
  std::byte* address = slab_address(index);
  const std::size_t bytes = count * slab_bytes();
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(address, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0) == MAP_FAILED) {
    return system_error("cannot map the memory to lend");
  }
  ::madvise(address, bytes, MADV_DONTDUMP);
  return {};
}

Expected<int> Arena::slab_fd(std::uint32_t index) {
  Slab& slab = slabs_[index];
  if (!slab.memfd) {
    if (auto made = make(index); !made) return std::move(made).error();
  }
  slab.exported = true;
  return slab.memfd.get();
}

void Arena::zero(Extent extent) {
  std::byte* at = frame_address(extent.first);
  std::uint64_t left = extent.bytes();
  if (!exported(extent.first.value >> slab_order_)) {
    std::memset(at, 0, left);
    return;
  }
  // The client may have punched a hole that cannot be filled again. A store there would kill the node; a system call
  // merely fails, and a hole needs no scrubbing.
  while (left > 0) {
    ssize_t done = ::read(zeros_.get(), at, left);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) done = static_cast<ssize_t>(kPageSize - reinterpret_cast<std::uintptr_t>(at) % kPageSize);
    at += done;
    left -= static_cast<std::uint64_t>(done);
  }
}

Expected<void> Arena::renew(std::uint32_t index) {
  Slab& slab = slabs_[index];
  assert(slab.exported);
  Expected<Slab> fresh = ahead_ ? make_slab(0) : Slab{};
  if (!fresh) return std::move(fresh).error();
  // All that can fail is done before the old memfd is touched.
  if (auto placed = ahead_ ? place(index, *fresh) : place_nothing(index, 1); !placed) {
    // Kernels before 6.12 may have unmapped the old by the time they fail, and no other mapping must get in there.
    static_cast<void>(place(index, slab));
    return std::move(placed).error();
  }
  forget(index);
  huge_slabs_.fetch_add(static_cast<std::uint32_t>(fresh->huge), std::memory_order_relaxed);
  slab = *std::move(fresh);
  return {};
}

// Gives the memory of a memfd back that is mapped here no more.
void Arena::forget(std::uint32_t index) {
  Slab& slab = slabs_[index];
  if (slab.memfd && allocate_file(slab.memfd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, slab_bytes()) != 0) {
    // Cannot happen: only a seal against writing forbids it, and no seal can be added. If it does, a zombie goes on
    // holding the memory, but the slab is good.
    assert(false);
  }
  huge_slabs_.fetch_sub(static_cast<std::uint32_t>(slab.huge), std::memory_order_relaxed);
  slab = Slab{};
}

Expected<void> Arena::drop(std::uint32_t index) {
  if (auto placed = place_nothing(index, 1); !placed) {
    if (slabs_[index].memfd) static_cast<void>(place(index, slabs_[index]));  // as in renew
    return placed;
  }
  forget(index);
  return {};
}

Expected<void> Arena::restore(std::uint32_t index) {
  if (!ahead_) return {};
  auto made = make(index);
  if (!made) static_cast<void>(place_nothing(index, 1));
  return made;
}

}  // namespace comex
