// Work on graphs: breadth-first search and PageRank.
#include <bit>

#include "bench/paging/load_order.h"
#include "bench/prefetch/load_graph.h"
#include "bench/prefetch/load_kinds.h"

namespace comex::bench {

namespace {

class BreadthFirst : public LoadWork {
 public:
  BreadthFirst(std::uint64_t bytes, std::uint64_t seed)
      : graph_(bytes, 2 * sizeof(std::uint32_t), seed), levels_(graph_.vertices()), queue_(graph_.vertices()) {}

  [[nodiscard]] bool ready() const { return graph_.ready() && levels_ && queue_; }
  void prepare() override { graph_.make(); }
  // The level of a vertex is its distance from the first, and one; 0: not reached.
  void work() override {
    std::uint32_t end = 0;
    queue_[end++] = graph_.busiest();
    levels_[graph_.busiest()] = 1;
    for (std::uint32_t at = 0; at < end; ++at) {
      const std::uint32_t vertex = queue_[at];
      for (const std::uint32_t next : graph_.row(vertex)) {
        if (levels_[next] != 0) continue;
        levels_[next] = levels_[vertex] + 1;
        queue_[end++] = next;
      }
    }
    reached_ = end;
  }
  // Right if no edge leads more than a level further, and every vertex but the first was reached by one of them.
  std::string check() override {
    if (std::string wrong = graph_.check(); !wrong.empty()) return wrong;
    std::uint32_t found = 0;
    for (std::uint32_t vertex = 0; vertex < graph_.vertices(); ++vertex) {
      const std::uint32_t level = levels_[vertex];
      result_ = mix(result_ + level);
      if (level == 0) continue;
      ++found;
      for (const std::uint32_t next : graph_.row(vertex)) {
        if (levels_[next] == 0 || levels_[next] > level + 1) return "vertex " + std::to_string(next) + " is too far";
      }
    }
    return found == reached_ ? "" : "levels were lost";
  }
  [[nodiscard]] std::uint64_t result() const override { return result_; }
  std::byte* data() override { return graph_.data(); }

 private:
  LoadGraph graph_;
  LoadMemory<std::uint32_t> levels_;
  LoadMemory<std::uint32_t> queue_;
  std::uint32_t reached_ = 0;
  std::uint64_t result_ = 0;
};

// A row of the graph is taken for the edges that lead to its vertex.
class PageRank : public LoadWork {
 public:
  PageRank(std::uint64_t bytes, std::uint64_t seed)
      : graph_(bytes, 2 * sizeof(double) + sizeof(std::uint32_t), seed),
        ranks_(graph_.vertices()),
        shares_(graph_.vertices()),
        outgoing_(graph_.vertices()) {}

  [[nodiscard]] bool ready() const { return graph_.ready() && ranks_ && shares_ && outgoing_; }
  void prepare() override {
    graph_.make();
    for (std::uint32_t vertex = 0; vertex < graph_.vertices(); ++vertex) {
      for (const std::uint32_t from : graph_.row(vertex)) ++outgoing_[from];
    }
  }
  void work() override {
    const double even = 1.0 / graph_.vertices();
    for (std::uint32_t vertex = 0; vertex < graph_.vertices(); ++vertex) ranks_[vertex] = even;
    for (int round = 0; round < kRounds; ++round) {
      for (std::uint32_t vertex = 0; vertex < graph_.vertices(); ++vertex) {
        shares_[vertex] = outgoing_[vertex] == 0 ? 0 : ranks_[vertex] / outgoing_[vertex];
      }
      for (std::uint32_t vertex = 0; vertex < graph_.vertices(); ++vertex) {
        double sum = 0;
        for (const std::uint32_t from : graph_.row(vertex)) sum += shares_[from];
        ranks_[vertex] = (1 - kDamping) * even + kDamping * sum;
      }
    }
  }
  // The shares of the last round are there still: any rank can be had again.
  std::string check() override {
    if (std::string wrong = graph_.check(); !wrong.empty()) return wrong;
    for (std::uint32_t vertex = 0; vertex < graph_.vertices(); ++vertex) {
      double sum = 0;
      for (const std::uint32_t from : graph_.row(vertex)) sum += shares_[from];
      if (ranks_[vertex] != (1 - kDamping) / graph_.vertices() + kDamping * sum) {
        return "the rank of vertex " + std::to_string(vertex) + " is wrong";
      }
      result_ = mix(result_ + std::bit_cast<std::uint64_t>(ranks_[vertex]));
    }
    return {};
  }
  [[nodiscard]] std::uint64_t result() const override { return result_; }
  std::byte* data() override { return graph_.data(); }

 private:
  static constexpr int kRounds = 4;
  static constexpr double kDamping = 0.85;

  LoadGraph graph_;
  LoadMemory<double> ranks_;
  LoadMemory<double> shares_;
  LoadMemory<std::uint32_t> outgoing_;
  std::uint64_t result_ = 0;
};

}  // namespace

std::unique_ptr<LoadWork> make_breadth_first(std::uint64_t bytes, std::uint64_t seed) {
  auto search = std::make_unique<BreadthFirst>(bytes, seed);
  return search->ready() ? std::move(search) : nullptr;
}

std::unique_ptr<LoadWork> make_page_rank(std::uint64_t bytes, std::uint64_t seed) {
  auto rank = std::make_unique<PageRank>(bytes, seed);
  return rank->ready() ? std::move(rank) : nullptr;
}

}  // namespace comex::bench
