// Arena: the memory a node lends, allocated and locked before the first client comes.
//
//   base()                                                             one reserved range of addresses
//   | slab 0          | slab 1          | slab 2          | ...        slab = 2^slab_order frames
//      memfd             memfd             memfd                       one file in memory behind each
//        |                 \__ also mapped by the clients of one family, through a descriptor from slab_fd
//
// A slab has a memfd of its own because a descriptor is a capability that cannot be taken back: a client of the same
// host is handed exactly the slabs its family holds, and can reach nothing else. A slab that was ever handed out is
// never lent to others. When its family has let go of it, renew() puts a fresh memfd in its place; a zombie that still
// maps the old one shares it with nobody.
//
// What a client can do with a descriptor, and why it does not hurt:
//   grow, shrink, forbid writing   refused: the memfd is sealed, and sealed against more seals.
//   punch holes                    its own data are lost. Where the node then touches a hole the kernel fills it in, as
//                                  long as it has memory. Huge pages come from a pool that the client may have emptied
//                                  meanwhile: then recv and send fail with EFAULT, zero() carries on, but plain loads
//                                  and stores by the node raise SIGBUS. So code of the node that touches the frames of
//                                  an exported slab itself, not through a system call, must not be fed huge slabs.
//   keep it for ever               it keeps an empty file: renew() gives the memory back. What the zombie writes after
//                                  that is charged to the zombie's control group.
//
// Thread safety: base, frames, slabs, slab_order, frame_address and huge_slabs from any thread. Calls about different
// slabs may run at once; calls about one slab are ordered by the caller (the ledger).
//
// Invariants:
//  1. Frame n is at base() + n * 4096, from creation to destruction, and backed by memory, unless its slab was dropped:
//     a memfd's, or, of a slab that is made when it is first handed out (Config::ahead), plain memory that nobody else
//     sees.
//  2. A memfd whose descriptor has left this process never backs a slab again after the next successful renew of it.
//  3. A fresh slab, new or renewed, is all zeros.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/expected.h"
#include "base/fd.h"
#include "wire/types.h"

namespace comex {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // the only size of huge pages the arena uses

// The order of the slabs of an arena of this size: the smallest that makes at most Arena::kMaxSlabs of them.
unsigned slab_order_for(std::uint64_t bytes);

class Arena {
 public:
  static constexpr unsigned kMinSlabOrder = 9;      // 2 MiB: a huge page
  static constexpr std::uint32_t kMaxSlabs = 4096;  // each costs a descriptor and a mapping
  static constexpr std::uint32_t kSpareFiles = 64;  // descriptors the rest of the process needs at the very least

  struct Config {
    std::uint64_t bytes = 0;  // rounded down to whole slabs
    bool lock = true;         // mlock: never swapped out
    bool ahead = true;        // allocated now; else each slab is made when it is handed to a client
    bool huge_pages = true;   // 2 MiB pages for as many slabs as the host has free ones for
    std::function<void(std::uint64_t bytes)> progress = nullptr;  // so many more are ready
  };

  // Whether this process may have as many open files as an arena of this size takes.
  static Expected<void> check_files(std::uint64_t bytes);
  // Allocates all of it, which takes about a second a GiB. Raises the process's soft limit of open files.
  static Expected<std::unique_ptr<Arena>> create(const Config& config);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::uint32_t frames() const { return slabs() << slab_order_; }
  [[nodiscard]] std::uint32_t slabs() const { return static_cast<std::uint32_t>(slabs_.size()); }
  [[nodiscard]] unsigned slab_order() const { return slab_order_; }
  [[nodiscard]] std::byte* frame_address(FrameNo frame) const {
    return base_ + (static_cast<std::size_t>(frame.value) << kPageShift);
  }
  // How many slabs are of huge pages now.
  [[nodiscard]] std::uint32_t huge_slabs() const { return huge_slabs_.load(std::memory_order_relaxed); }

  // The descriptor to send to a client; it stays the arena's, and is closed by the next renew of the slab. From here
  // on the slab counts as exported. Fails only if the slab had to be made, and leaves it as it was then.
  // REQUIRES: nothing in the slab that this client may not see (it was zeroed, or is fresh), and if it has to be made
  // nothing at all.
  Expected<int> slab_fd(std::uint32_t index);
  [[nodiscard]] bool exported(std::uint32_t slab) const { return slabs_[slab].exported; }

  // Scrubs the frames. Safe against whatever a client does to an exported slab meanwhile.
  void zero(Extent extent);

  // Puts a fresh memfd in an exported slab's place and gives the old one's memory back, even if a client still maps
  // it. Needs memory for one slab more while it runs. On failure the slab is as it was, still exported: it must not be
  // handed out, and renew may be tried again.
  // REQUIRES: exported(slab), and nobody uses its frames any more.
  Expected<void> renew(std::uint32_t index);

  // Gives a slab's memory back to the host, even if a client still maps it. On failure it is as it was.
  // REQUIRES: nobody uses its frames, nor will before it is restored.
  Expected<void> drop(std::uint32_t index);
  // Fresh memory for a slab that was dropped. On failure it is as it was.
  Expected<void> restore(std::uint32_t index);

 private:
  struct Slab {
    Fd memfd;  // none: not made yet
    bool huge = false;
    bool exported = false;
  };

  explicit Arena(unsigned slab_order, const Config& config);
  void forget(std::uint32_t index);
  Expected<void> reserve(std::uint32_t slabs);
  Expected<void> make(std::uint32_t index);
  // A new memfd, allocated and sealed; of huge pages if `spare_slabs` slabs' worth of them stay free besides.
  [[nodiscard]] Expected<Slab> make_slab(std::uint32_t spare_slabs) const;
  // Maps it, locked, in place of whatever is at that slab's addresses.
  Expected<void> place(std::uint32_t index, const Slab& slab);
  // The same with plain, empty memory.
  Expected<void> place_nothing(std::uint32_t index, std::uint32_t count);
  [[nodiscard]] std::size_t slab_bytes() const { return kPageSize << slab_order_; }
  [[nodiscard]] std::byte* slab_address(std::uint32_t slab) const { return base_ + slab * slab_bytes(); }

  const unsigned slab_order_;
  const bool lock_;
  const bool ahead_;
  const bool huge_pages_;
  std::byte* reservation_ = nullptr;
  std::size_t reserved_bytes_ = 0;
  std::byte* base_ = nullptr;  // in the reservation, aligned to a huge page
  Fd zeros_;                   // /dev/zero
  std::vector<Slab> slabs_;
  std::atomic<std::uint32_t> huge_slabs_{0};  // a statistic: relaxed
};

}  // namespace comex
