// How a program under `comex run` fares with its copies and moves, where others can read it: `comex status` on the same
// machine. At the beginning of the Room, which the keeper's process has open.
//
// Thread safety: one writer, the keeper; readers in any process, which may see figures of two moments.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace comex {

struct RunProgress {
  static constexpr std::uint64_t kMagic = 0x35305f6e75725f63;  // of this layout

  std::atomic<std::uint64_t> magic{0};    // written last
  std::atomic<std::uint32_t> program{0};  // its process id
  std::atomic<std::uint32_t> copies{1};   // that each page should have
  std::atomic<std::uint32_t> data{1};     // how pages are coded (pool/code.h); no parity: they are not
  std::atomic<std::uint32_t> parity{0};
  std::atomic<std::uint32_t> processes{0};
  std::atomic<std::uint32_t> nodes_away{0};  // that have pages and do not answer
  std::atomic<bool> stuck{false};            // nodes want memory back, and there is no room elsewhere
  std::atomic<std::uint64_t> pages{0};       // in the pool, or on the disk
  std::atomic<std::uint64_t> held{0};        // frames of nodes that they take, with copies, parity and what is free
  std::atomic<std::uint64_t> free{0};        // pages for which there would be room in that
  std::atomic<std::uint64_t> dead{0};        // ... and is not, for the sake of other pages of their columns
  std::atomic<std::uint64_t> on_disk{0};     // pages that are on the disk alone
  std::atomic<std::uint64_t> behind{0};      // that have one node, and no copy on the disk yet
  // Work: all of it since it last began, and what is done of it. Equal: there is none.
  std::atomic<std::uint64_t> to_copy{0};
  std::atomic<std::uint64_t> copied{0};
  std::atomic<std::uint64_t> to_move{0};
  std::atomic<std::uint64_t> moved{0};
  std::atomic<std::uint64_t> straight{0};  // pages of both that went from node to node, ever
  std::atomic<std::uint64_t> rate{0};      // pages a second, of both
  std::array<char, 64> name{};             // of the program; ends with a zero
};

}  // namespace comex
