// Work: visiting pages in some order.
#include "bench/paging/load_memory.h"
#include "bench/paging/load_page.h"
#include "bench/prefetch/load_kinds.h"
#include "bench/prefetch/load_visits.h"

namespace comex::bench {

namespace {

class PageWalk : public LoadWork {
 public:
  PageWalk(std::unique_ptr<Visits> visits, std::uint64_t pages, std::uint64_t seed)
      : visits_(std::move(visits)), pages_(pages), seed_(seed), memory_(pages) {}

  [[nodiscard]] bool ready() const { return static_cast<bool>(memory_); }
  void prepare() override {
    for (std::uint64_t page = 0; page < pages_; ++page) fill_page(memory_[page].words, {seed_, page, 0});
  }
  void work() override {
    for (std::uint64_t i = 0; i < pages_; ++i) {
      const std::uint64_t page = visits_->next();
      const PageIdentity identity{seed_, page, 0};
      const bool right = page_is_right(memory_[page].words, identity, i);
      if (!right && wrong_.empty()) wrong_ = describe_wrong_page(memory_[page].words, identity);
      result_ = mix(result_ + page);
    }
  }
  std::string check() override { return wrong_; }
  [[nodiscard]] std::uint64_t result() const override { return result_; }
  std::byte* data() override { return reinterpret_cast<std::byte*>(memory_.data()); }

 private:
  std::unique_ptr<Visits> visits_;
  std::uint64_t pages_;
  std::uint64_t seed_;
  LoadMemory<LoadPage> memory_;
  std::uint64_t result_ = 0;
  std::string wrong_;
};

}  // namespace

std::unique_ptr<LoadWork> make_page_walk(std::string_view order, std::uint64_t bytes, std::uint64_t seed) {
  const std::uint64_t pages = bytes / kLoadPageBytes;
  std::unique_ptr<Visits> visits = make_visits(order, pages, seed);
  if (visits == nullptr) return nullptr;
  auto walk = std::make_unique<PageWalk>(std::move(visits), pages, seed);
  return walk->ready() ? std::move(walk) : nullptr;
}

}  // namespace comex::bench
