// A mapping of one thread, and what each of its pages should hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "checker/checker.h"

namespace checker {

// The first `split` words of a page were written with `stamp`, the rest with `before`: pages are written from the
// front, in pieces, so that much of what is written must be added to what was there.
struct Page {
  std::uint64_t stamp = 0;
  std::uint64_t before = 0;
  std::uint16_t split = kWords;
  std::uint8_t protection = 3;  // PROT_*
  bool may_be_zero = false;     // after MADV_FREE, until it is written
};

class Plot {
 public:
  Plot(const Settings& settings, std::byte* base, std::vector<Page> pages)
      : settings_(&settings), base_(base), pages_(std::move(pages)) {}

  [[nodiscard]] std::byte* address(std::size_t page) const { return base_ + page * kPageSize; }
  [[nodiscard]] std::size_t size() const { return pages_.size(); }
  [[nodiscard]] const Page& page(std::size_t index) const { return pages_[index]; }
  [[nodiscard]] bool allows(std::size_t from, std::size_t count, int protection) const;

  // Writes the next `words` words of a page, with `stamp` if that begins anew.
  void write(std::size_t index, std::uint64_t stamp, std::size_t words);
  // Ends the program if a word is not what it should be.
  void verify(std::size_t index);
  void verify_all();

  // What happened to the memory by other means.
  void now_zero(std::size_t from, std::size_t count);
  void now_maybe_zero(std::size_t from, std::size_t count);
  void now_protected(std::size_t from, std::size_t count, int protection);
  void now_as(std::size_t index, const Page& other);  // but for its protection
  void now_at(std::byte* base) { base_ = base; }
  void resize(std::size_t pages) { pages_.resize(pages); }
  // Cuts the plot at `from`; what lay there is returned as a plot of its own.
  Plot cut(std::size_t from);

 private:
  [[nodiscard]] std::uint64_t expected(std::size_t index, std::size_t at) const;
  [[noreturn]] void report(std::size_t index, std::size_t at, std::uint64_t is, std::uint64_t should) const;

  const Settings* settings_;
  std::byte* base_;
  std::vector<Page> pages_;
};

}  // namespace checker
