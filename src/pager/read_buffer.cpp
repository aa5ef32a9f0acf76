#include "pager/read_buffer.h"

#include <cstring>
#include <mutex>
#include <new>
#include <span>

#include "pager/transfer_memory.h"

namespace comex {

ReadBuffer::ReadBuffer(Memory& memory, Frames& frames, std::uint32_t pages) noexcept : frames_(frames) {
  const std::uint32_t groups = pages / kGroupPages;
  if (groups == 0) return;
  const std::size_t slots = std::size_t{groups} * kGroupPages;
  std::byte* const room = memory.own(groups * sizeof(Group));
  heads_ = reinterpret_cast<SlotNo*>(memory.own(slots * sizeof(SlotNo)));
  links_ = reinterpret_cast<SlotNo*>(memory.own(slots * sizeof(SlotNo)));
  memory_ = transfer_memory(memory, frames, slots * kPageSize);
  if (room == nullptr || heads_ == nullptr || links_ == nullptr || memory_ == nullptr) return;
  groups_ = reinterpret_cast<Group*>(room);
  for (std::uint32_t i = 0; i < groups; ++i) new (&groups_[i]) Group;
  count_ = groups;
}

// --- what is here ---

ReadBuffer::SlotNo* ReadBuffer::link_to(PageNo page) noexcept {
  SlotNo* link = &head_of(page);
  for (; *link != 0; link = &links_[*link - 1]) {
    const std::uint32_t slot = *link - 1U;
    if (groups_[slot / kGroupPages].pages[slot % kGroupPages] == page) break;
  }
  return link;
}

void ReadBuffer::remove(SlotNo& link) noexcept {
  const std::uint32_t slot = link - 1U;
  link = links_[slot];
  links_[slot] = 0;
  groups_[slot / kGroupPages].pages[slot % kGroupPages] = PageNo{};
  held_.fetch_sub(1, std::memory_order_relaxed);
}

bool ReadBuffer::has(PageNo page) noexcept {
  if (held_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  return *link_to(page) != 0;
}

bool ReadBuffer::take(PageNo page, std::byte* to, Nanos* lead) noexcept {
  // It was put here by somebody who had it locked, as this thread has now.
  if (held_.load(std::memory_order_relaxed) == 0) return false;
  Group* group = nullptr;
  std::uint32_t slot = 0;
  {
    const std::lock_guard lock(mutex_);
    const SlotNo* const link = link_to(page);
    if (*link == 0) return false;
    group = &groups_[(*link - 1U) / kGroupPages];
    slot = (*link - 1U) % kGroupPages;
    ++group->pins;
  }
  if (lead != nullptr) *lead = Clock::now() - group->asked;  // before waiting: what is late has a short one
  const bool came = wait_for(*group);
  if (came && to != nullptr) std::memcpy(to, bytes_of(*group, slot), kPageSize);
  const std::lock_guard lock(mutex_);
  --group->pins;
  // Nobody else takes it out: it is pinned for those who clear groups, and locked for those who want the page.
  remove(*link_to(page));
  return came;
}

bool ReadBuffer::wait_for(Group& group) noexcept {
  return group.reads.wait(frames_) == Errc::ok;
}

// --- what comes ---

void ReadBuffer::clear(Group& group) noexcept {
  for (std::uint32_t slot = 0; slot < group.count; ++slot) {
    if (group.pages[slot] != PageNo{}) remove(*link_to(group.pages[slot]));
  }
  group.count = 0;
  group.reads.clear();
}

bool ReadBuffer::notice(Group& group) noexcept {
  if (group.state != State::reading || !group.reads.done()) return false;
  group.state = State::here;
  frames_.end_reads(group.ticket);
  --under_way_;
  return true;
}

std::optional<ReadBuffer::Coming> ReadBuffer::prepare() noexcept {
  if (count_ == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Group& group = groups_[next_];
  (void)notice(group);
  // Most of those that were begun last have come, unnoticed.
  for (std::uint32_t i = 1; i <= 2 * kMostUnderWay && i < count_ && under_way_ >= kMostUnderWay; ++i) {
    (void)notice(groups_[(next_ + count_ - i) % count_]);
  }
  const bool idle = group.state == State::free || group.state == State::here;
  if (!idle || group.pins > 0 || under_way_ >= kMostUnderWay) return std::nullopt;
  clear(group);
  next_ = (next_ + 1) % count_;
  group.state = State::filling;
  group.ticket = frames_.begin_reads();
  ++under_way_;
  return Coming(*this, group);
}

bool ReadBuffer::add(Group& group, PageNo page, Location place) noexcept {
  const std::uint32_t slot = group.count;
  if (!group.reads.add(place, bytes_of(group, slot))) return false;
  const std::lock_guard lock(mutex_);
  group.pages[slot] = page;
  ++group.count;
  SlotNo& head = head_of(page);
  const auto number = static_cast<SlotNo>(&group - groups_) * kGroupPages + slot + 1;
  links_[number - 1] = head;
  head = static_cast<SlotNo>(number);
  held_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ReadBuffer::begin(Group& group) noexcept {
  if (group.count == 0) {
    const std::lock_guard lock(mutex_);
    group.state = State::free;
    frames_.end_reads(group.ticket);
    --under_way_;
    return;
  }
  group.asked = Clock::now();
  group.reads.begin(frames_, Priority::bulk);
  const std::lock_guard lock(mutex_);
  group.state = State::reading;
}

void ReadBuffer::progress() noexcept {
  if (count_ == 0) return;
  for (std::uint32_t i = 0; i < count_; ++i) {
    NodeSet nodes;
    {
      const std::lock_guard lock(mutex_);
      if (under_way_ == 0) return;
      Group& group = groups_[i];
      if (group.state != State::reading || notice(group)) continue;
      nodes = group.reads.nodes();
    }
    for (std::uint32_t node = 0; node < nodes.count(); ++node) frames_.poll(nodes[node]);
  }
}

void ReadBuffer::settle() noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    Group& group = groups_[i];
    {
      const std::lock_guard lock(mutex_);
      if (under_way_ == 0) return;
      if (group.state != State::reading) continue;
      ++group.pins;
    }
    (void)wait_for(group);
    const std::lock_guard lock(mutex_);
    --group.pins;
    (void)notice(group);
  }
}

void ReadBuffer::forget() noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (groups_[i].state != State::here) continue;
    clear(groups_[i]);
    groups_[i].state = State::free;
  }
}

}  // namespace comex
