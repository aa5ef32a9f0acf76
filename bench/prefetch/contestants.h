// The systems that one program is measured on, with so much memory. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/own_nodes.h"
#include "bench/paging/kernel_swap.h"
#include "bench/prefetch/prefetch_figures.h"

namespace comex::bench {

// What all of them need to live; it must outlive them.
struct PrefetchGround {
  std::string folder;  // for logs, sockets and counts
  std::string swap_folder;
  OwnNodes nodes;  // one for each medium: neither competes for the other's frames
  Expected<SwapHost> host = Error{Errc::unsupported, "not prepared"};
};

struct Running {
  Contestant who;
  std::unique_ptr<PagingSystem> system;
  std::string stats;  // where comex run writes its counts; empty: it is not comex
};

// `flags` are for comex run, which writes its counts to a file of its own.
Running comex_contestant(const PrefetchGround& ground, const Contestant& who, std::uint64_t local,
                         const std::vector<std::string>& flags = {});

// Swap for a program of `room` bytes: kPagingZram or kPagingDisk. An error where it cannot be had.
Expected<Running> kernel_contestant(const PrefetchGround& ground, std::string_view system, std::uint64_t local,
                                    std::uint64_t room);

// Nodes, zram and swap files of this size hold a program that wants so many bytes: none hands out its last page gladly.
std::uint64_t room_for(std::uint64_t bytes);

// So much of `bytes`, in whole pages, but no less than comex run takes.
std::uint64_t share_of(std::uint64_t bytes, unsigned percent);
inline constexpr std::uint64_t kLeastLocal = std::uint64_t{16} << 20;
// Which share that is: 100 at most.
unsigned percent_of(std::uint64_t part, std::uint64_t bytes);

// The counts of the run that has just ended; nothing where it was not comex.
Expected<std::optional<RunCounts>> counts_of(const Running& running);

}  // namespace comex::bench
