// The kinds of work that the load can do. Each: nothing where its memory cannot be had.
#pragma once

#include "bench/prefetch/load.h"

namespace comex::bench {

// Visits pages by one of the orders of load_visits.h, each as often as the order says, and checks each. Nothing for a
// name that is no order.
std::unique_ptr<LoadWork> make_page_walk(std::string_view order, std::uint64_t bytes, std::uint64_t seed);

// Breadth-first search through a graph from its busiest vertex.
std::unique_ptr<LoadWork> make_breadth_first(std::uint64_t bytes, std::uint64_t seed);

// Some rounds of PageRank on a graph: each pulls over all edges.
std::unique_ptr<LoadWork> make_page_rank(std::uint64_t bytes, std::uint64_t seed);

// C = A * B, in blocks that fit a cache.
std::unique_ptr<LoadWork> make_matrix_product(std::uint64_t bytes, std::uint64_t seed);

// As a sort with files does it: short runs are sorted, and then merged many at a time, from one array into another.
std::unique_ptr<LoadWork> make_merge_sort(std::uint64_t bytes, std::uint64_t seed);

}  // namespace comex::bench
