// A program's memory in an array, and frames in another, for the tests of this layer. They keep to the contracts of
// pager/memory.h and pool/frames.h, and check that the pager keeps to them too.
//
// Thread safety: everything from any thread.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <vector>

#include "pager/pager.h"

namespace comex::testing_support {

// Pages from kFirst on. A page is there or not, guarded or not, as the kernel would have it.
class FakeMemory final : public Memory {
 public:
  static constexpr PageNo kFirst{0x7000'0000};

  explicit FakeMemory(std::uint32_t pages) : pages_(pages), bytes_(allocate(pages * kPageSize)) {}

  // What a load or store of the program does: true, or a fault.
  bool load(PageNo page, std::uint64_t word, std::uint64_t* value) {
    Page& at = page_of(page);
    const std::shared_lock lock(at.mutex);
    if (!at.there) return false;
    *value = words(page)[word].load(std::memory_order_relaxed);
    return true;
  }
  bool store(PageNo page, std::uint64_t word, std::uint64_t value) {
    Page& at = page_of(page);
    const std::shared_lock lock(at.mutex);
    if (!at.there || at.guarded) return false;
    words(page)[word].store(value, std::memory_order_relaxed);
    return true;
  }
  [[nodiscard]] bool there(PageNo page) { return page_of(page).there; }
  [[nodiscard]] std::uint64_t count_there() {
    std::uint64_t count = 0;
    for (Page& page : pages_) {
      const std::shared_lock lock(page.mutex);
      count += page.there;
    }
    return count;
  }
  // As mremap does it: what is there goes along, unguarded.
  void move(PageRun from, PageNo to) {
    for (std::uint64_t i = 0; i < from.count; ++i) {
      Page& old = page_of(from.first + i);
      Page& fresh = page_of(to + i);
      if (!old.there) continue;
      std::memcpy(static_cast<void*>(words(to + i)), words(from.first + i), kPageSize);
      fresh.there = true;
      fresh.guarded = old.there = old.guarded = false;
    }
  }
  [[nodiscard]] std::uint64_t guards() const { return guards_; }
  [[nodiscard]] std::uint64_t discards() const { return discards_; }
  // Called inside the operations, at the worst moments.
  std::function<void()> while_guarded;
  bool refuse_to_place = false;
  PageNo refuse{};  // this one is not placed
  PageNo known{};   // this one the program may have touched before it was adopted: it may be there
  PageNo border{};  // another mapping begins here: what is placed on both sides at once is refused
  bool refuse_to_guard = false;
  bool refuse_rows_half_way = false;  // to lift guards
  bool peeks = false;
  std::function<bool(PageNo)> refuse_to_peek;

  Errc place(PageRun pages, const std::byte* from, bool guarded) noexcept override { return put(pages, from, guarded); }
  Errc place_zeros(PageRun pages) noexcept override { return put(pages, nullptr, false); }
  Errc guard(PageRun pages) noexcept override {
    if (refuse_to_guard) return Errc::invalid;
    ++guards_;
    each(pages, [](Page& page) { page.guarded = page.there; });
    if (while_guarded) while_guarded();
    return Errc::ok;
  }
  Errc unguard(PageRun pages) noexcept override {
    if (refuse_rows_half_way && pages.count > 1) {
      each(PageRun{pages.first, pages.count / 2}, [](Page& page) { page.guarded = false; });
      return Errc::invalid;
    }
    each(pages, [](Page& page) { page.guarded = false; });
    return Errc::ok;
  }
  Errc discard(std::span<const PageRun> runs) noexcept override {
    ++discards_;
    for (const PageRun& run : runs) {
      for (PageNo page = run.first; page < run.end(); page = page + 1) {
        Page& at = page_of(page);
        const std::unique_lock lock(at.mutex);
        at.there = at.guarded = false;
        std::memset(static_cast<void*>(words(page)), 0xdd, kPageSize);
      }
    }
    return Errc::ok;
  }
  Errc peek(PageNo page, std::byte* to) noexcept override {
    if (refuse_to_peek && refuse_to_peek(page)) return Errc::io;
    std::memcpy(to, bytes(page), kPageSize);
    return Errc::ok;
  }
  [[nodiscard]] bool can_peek() const noexcept override { return peeks; }
  [[nodiscard]] const std::byte* bytes(PageNo page) const noexcept override {
    return bytes_.get() + (page - kFirst) * kPageSize;
  }
  std::byte* own(std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    owned_.push_back(allocate(bytes));
    return owned_.back().get();
  }

 private:
  struct Page {
    std::shared_mutex mutex;  // guards there and guarded, and orders the bytes against both
    bool there = false;
    bool guarded = false;
  };
  using Bytes = std::unique_ptr<std::byte, decltype(&std::free)>;

  static Bytes allocate(std::size_t bytes) { return {static_cast<std::byte*>(std::calloc(1, bytes)), &std::free}; }
  Page& page_of(PageNo page) { return pages_.at(page - kFirst); }
  std::atomic<std::uint64_t>* words(PageNo page) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(bytes_.get() + (page - kFirst) * kPageSize);
  }
  template <typename F>
  void each(PageRun pages, F&& f) {
    for (PageNo page = pages.first; page < pages.end(); page = page + 1) {
      const std::unique_lock lock(page_of(page).mutex);
      f(page_of(page));
    }
  }
  Errc put(PageRun pages, const std::byte* from, bool guarded) {
    if (refuse_to_place || (pages.first <= refuse && refuse < pages.end())) return Errc::invalid;
    if (pages.first < border && border < pages.end()) return Errc::invalid;
    for (PageNo page = pages.first; page < pages.end(); page = page + 1) {
      Page& at = page_of(page);
      const std::unique_lock lock(at.mutex);
      if (page == known && at.there && from == nullptr) continue;
      EXPECT_FALSE(at.there) << "page " << page - kFirst << " is put where one is";
      if (from == nullptr) {
        std::memset(static_cast<void*>(words(page)), 0, kPageSize);
      } else {
        std::memcpy(static_cast<void*>(words(page)), from + (page - pages.first) * kPageSize, kPageSize);
      }
      at.there = true;
      at.guarded = guarded;
    }
    return Errc::ok;
  }

  std::vector<Page> pages_;
  Bytes bytes_;
  std::mutex mutex_;
  std::vector<Bytes> owned_;  // guarded by mutex_
  std::atomic<std::uint64_t> guards_{0};
  std::atomic<std::uint64_t> discards_{0};
};

// Frames of one node, or of several with as many each. Transfers are done at once, unless told otherwise.
class FakeFrames final : public Frames {
 public:
  FakeFrames(std::uint16_t nodes, std::uint32_t frames)
      : frames_(frames), memory_(std::size_t{nodes} * frames * kPageSize), used_(nodes) {
    for (std::uint16_t node = 0; node < nodes; ++node) {
      for (std::uint32_t frame = 0; frame < frames; ++frame) free_.insert({node, frame});
    }
  }

  std::optional<Run> take(std::uint32_t want) noexcept override {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::nullopt;
    const auto [node, first] = *free_.begin();
    Run run{NodeId{node}, FrameNo{first}, 0};
    while (run.count < want && free_.erase({node, first + run.count}) > 0) {
      used_[node].insert(first + run.count);
      ++run.count;
    }
    return run;
  }
  void put_back(const Run& run) noexcept override { give_back(run); }
  void give_back(const Run& run) noexcept override {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < run.count; ++i) {
      EXPECT_EQ(used_[run.node.value].erase(run.first.value + i), 1U) << "a frame is given back that is not used";
      std::memset(at(run.at(i)), 0xee, kPageSize);
      if (!worn.empty()) worn.erase(run.first.value + i);
      free_.insert({run.node.value, run.first.value + i});
    }
  }
  [[nodiscard]] std::uint32_t at_hand() const noexcept override {
    const std::lock_guard lock(mutex_);
    return static_cast<std::uint32_t>(free_.size());
  }
  void submit(NodeId node, Transfer& transfer) noexcept override {
    transfer.begin();
    const std::lock_guard lock(mutex_);
    for (const Segment& segment : transfer.segments) {
      for (std::uint32_t i = 0; i < segment.count; ++i) {
        const bool second = node.value >= kSecond;
        const Location where{second ? NodeId{static_cast<std::uint16_t>(node.value - kSecond)} : node,
                             segment.first + i};
        EXPECT_EQ(used_[where.node.value].count(where.frame.value), 1U) << "a frame is moved that is not used";
        std::byte* const local = segment.local + i * kPageSize;
        const bool reads = transfer.direction == Direction::read;
        std::byte* const there = second ? second_.data() + (at(where) - memory_.data()) : at(where);
        std::memcpy(reads ? local : there, reads ? there : local, kPageSize);
        if (reads && spoil_reads > 0) local[0] ^= std::byte{1};
        if (reads && spoil_reads > 0) --spoil_reads;
      }
    }
    const bool reads = transfer.direction == Direction::read;
    reads_ += reads;
    if (result_ == Errc::ok && (reads ? hold_reads_ && transfer.priority == Priority::bulk : hold_)) {
      held_.push_back(&transfer);
      return;
    }
    transfer.finish(reads ? result_.load() : Errc::ok);
  }
  void poll(NodeId) noexcept override {}
  [[nodiscard]] bool is_near(NodeId) const noexcept override { return near; }
  [[nodiscard]] bool keeps_waiting(NodeId node) const noexcept override {
    return node == disk || Frames::keeps_waiting(node);
  }
  [[nodiscard]] Location place_of(Location home) const noexcept override {
    const auto found = elsewhere.find(home.frame.value);
    return found == elsewhere.end() ? home : Location{found->second, home.frame};
  }
  Errc wait(NodeId, Transfer& transfer) noexcept override {
    if (while_waiting) while_waiting();
    if (!transfer.done()) finish_held();
    return transfer.result();
  }
  Errc wait_until_decided(NodeId, const Deadline&) noexcept override { return Errc::fenced; }
  Errc wait_for_frames(std::uint32_t count, const Deadline&) noexcept override {
    return at_hand() >= count ? Errc::ok : Errc::no_memory;
  }

  [[nodiscard]] Places places_of(Location home) const noexcept override {
    return sealed ? Places{} : readable_places(home);
  }
  [[nodiscard]] Places readable_places(Location home) const noexcept override {
    const Location second{NodeId{static_cast<std::uint16_t>(home.node.value + kSecond)}, home.frame};
    return {{home, second}, copies()};
  }
  [[nodiscard]] std::uint32_t copies() const noexcept override { return copies_ ? 2 : 1; }

  [[nodiscard]] bool spreads() const noexcept override { return spread; }
  bool spread = false;
  [[nodiscard]] bool tidies() const noexcept override { return !worn.empty(); }
  [[nodiscard]] bool is_worn(Location home) const noexcept override { return worn.contains(home.frame.value); }
  std::set<std::uint32_t> worn;  // frames that are to be given up, until they are; for a test with one thread

  // Each page is kept twice; the first copy is what the pager reads.
  void keep_two_copies() {
    second_.resize(memory_.size());
    copies_ = true;
  }
  // What was written can be read, and nothing be written.
  std::atomic<bool> sealed = false;
  // So many pages come changed from now on, though their frames are right.
  std::atomic<std::uint32_t> spoil_reads = 0;
  // For a test to change, or to look for something in.
  [[nodiscard]] std::byte* bytes_at(Location where) { return at(where); }
  [[nodiscard]] std::span<const std::byte> all_bytes() const { return memory_; }

  // Writes, or reads that nobody waits for, stay under way until this is off, or somebody waits.
  void hold_writes(bool on) { hold(hold_, on); }
  void hold_reads(bool on) { hold(hold_reads_, on); }
  [[nodiscard]] std::size_t under_way() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  // Called when somebody waits for a transfer.
  std::function<void()> while_waiting;
  void fail_reads(Errc with) { result_ = with; }
  std::atomic<bool> near = false;
  NodeId disk = kNowhere;  // this node is one: who reads there waits
  // Frames that have no place of their own now, but such a one: they must not be read meanwhile. For a test with one
  // thread.
  std::map<std::uint32_t, NodeId> elsewhere;
  [[nodiscard]] std::uint64_t used() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t count = 0;
    for (const auto& node : used_) count += node.size();
    return count;
  }
  [[nodiscard]] int reads() const { return reads_; }

 private:
  static constexpr std::uint16_t kSecond = 0x1000;  // and a node's number: where its pages are kept a second time

  std::byte* at(Location where) {
    return memory_.data() + (std::size_t{where.node.value} * frames_ + where.frame.value) * kPageSize;
  }

  void hold(bool& which, bool on) {
    {
      const std::lock_guard lock(mutex_);
      which = on;
    }
    if (!on) finish_held();
  }
  void finish_held() {
    std::vector<Transfer*> done;
    {
      const std::lock_guard lock(mutex_);
      hold_ = false;
      done.swap(held_);
    }
    for (Transfer* transfer : done) transfer->finish(Errc::ok);
  }

  const std::uint32_t frames_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<std::byte> memory_;
  std::vector<std::byte> second_;
  bool copies_ = false;
  std::set<std::pair<std::uint16_t, std::uint32_t>> free_;
  std::vector<std::set<std::uint32_t>> used_;
  std::vector<Transfer*> held_;
  bool hold_ = false;
  bool hold_reads_ = false;
  std::atomic<Errc> result_{Errc::ok};
  std::atomic<int> reads_{0};
};

}  // namespace comex::testing_support
