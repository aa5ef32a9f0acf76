#include "sim/churn_study.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "node/ledger.h"
#include "sim/random.h"
#include "wire/auth.h"

namespace comex::sim {
namespace {

constexpr std::uint32_t kChunk = 64;  // frames
constexpr unsigned kChunkOrder = 6;
constexpr std::uint32_t kLong = 1U << kUsualMinOrder;
constexpr std::size_t kStock = 4;  // chunks at hand, ahead of need

struct Program {
  std::shared_ptr<Client> client;
  std::vector<Extent> chunks;
  std::vector<Extent> at_hand;  // chunks too, not used
  double phase = 0;
};

class Churn {
 public:
  explicit Churn(const ChurnStudy& study)
      : study_(study),
        random_(study.seed),
        arena_(*Arena::create({.bytes = std::uint64_t{study.slabs} << 21, .lock = false, .ahead = false})),
        ledger_(*arena_, LedgerConfig{.compact_above = study.compaction ? LedgerConfig{}.compact_above : 0}) {
    for (std::uint32_t i = 0; i < study.clients; ++i) {
      const Arrival arrival{study.shm ? Medium::shm : Medium::tcp, 0, i, "", "", nullptr};
      programs_.push_back({*ledger_.admit(ledger_.next_id(), wire::SessionKey{}, arrival), {}, {}, random_.uniform()});
    }
  }

  ChurnResult run() {
    const auto seconds = static_cast<std::uint64_t>(study_.hours * 3600);
    for (std::uint64_t second = 0; second < seconds; ++second) step(second);
    const double count = static_cast<double>(seconds);
    result_.mean_use /= count;
    result_.served /= count;
    result_.served_below_90 = below_ > 0 ? result_.served_below_90 / below_ : 1;
    result_.refused = asked_ > 0 ? refused_ / asked_ : 0;
    result_.moved_per_hour = moved_ / study_.hours / std::max(1.0, result_.mean_use * chunks_in_all());
    return result_;
  }

 private:
  [[nodiscard]] double chunks_in_all() const { return static_cast<double>(arena_->frames()) / kChunk; }
  // Chunks of one program, all alike in the mean.
  [[nodiscard]] std::size_t size_of(const Program& program, double hours) const {
    const double mean = study_.use * chunks_in_all() / study_.clients;
    const double wave = std::sin(2 * std::numbers::pi * (hours * (1 + program.phase) + program.phase));
    return static_cast<std::size_t>(mean * (1 + study_.swing * wave));
  }

  void step(std::uint64_t second) {
    now_ += std::chrono::seconds(1);
    const double hours = static_cast<double>(second) / 3600;
    for (Program& program : programs_) {
      shrink(program, turnover(program));
      shrink(program, program.chunks.size() - std::min(program.chunks.size(), size_of(program, hours)));
    }
    for (Program& program : programs_) grow(program, size_of(program, hours));
    ledger_.adjust(now_);
    while (ledger_.renew_some(64)) {
    }
    for (Program& program : programs_) move(program);
    look();
  }

  std::size_t turnover(const Program& program) {
    const double share = static_cast<double>(program.chunks.size()) * study_.turnover;
    return static_cast<std::size_t>(share + random_.uniform());
  }
  void shrink(Program& program, std::size_t chunks) {
    for (; chunks > 0 && !program.chunks.empty(); --chunks) {
      std::swap(program.chunks[random_.below(program.chunks.size())], program.chunks.back());
      (void)ledger_.give_back(*program.client, {program.chunks.back()});
      program.chunks.pop_back();
    }
  }

  void grow(Program& program, std::size_t chunks) {
    while (program.chunks.size() < chunks) {
      if (!take(program)) return;
      program.chunks.push_back(program.at_hand.back());
      program.at_hand.pop_back();
    }
  }
  // REQUIRES of what follows: if true, something is at hand.
  bool take(Program& program) {
    while (program.at_hand.size() < kStock && ask(program)) {
    }
    return !program.at_hand.empty();
  }
  // Long extents; holes of a chunk, if the node is to be left in part; and what there is if there is nothing else at
  // hand: as the pool does.
  bool ask(Program& program) {
    const bool below = use() < 0.9;
    const bool leaving = !ledger_.asked_of(*program.client).empty();
    auto granted = ledger_.grant(*program.client, leaving ? kChunk : kLong, leaving ? kChunkOrder : kUsualMinOrder);
    asked_ += below ? 1 : 0;
    refused_ += below && !granted ? 1 : 0;
    result_.extents += granted ? 1 : 0;
    if (!granted && !leaving && program.at_hand.empty()) granted = ledger_.grant(*program.client, kChunk, 0);
    if (!granted) return false;
    for (const Extent& extent : *granted) {
      for (std::uint32_t at = 0; at < extent.count; at += kChunk) {
        program.at_hand.push_back({extent.first + at, kChunk});
      }
    }
    return true;
  }

  // Out of what the node wants empty.
  void move(Program& program) {
    const auto slabs = ledger_.asked_of(*program.client);
    if (slabs.empty()) return;
    const auto asked = [&](const Extent& chunk) {
      return std::binary_search(slabs.begin(), slabs.end(), chunk.first.value >> arena_->slab_order());
    };
    std::erase_if(program.at_hand, [&](const Extent& chunk) {
      return asked(chunk) && ledger_.give_back(*program.client, {chunk}).has_value();
    });
    std::uint32_t left = study_.moves_per_second;
    for (Extent& chunk : program.chunks) {
      if (left == 0 || !asked(chunk)) continue;
      if (!take(program)) return;
      (void)ledger_.give_back(*program.client, {chunk});
      chunk = program.at_hand.back();
      program.at_hand.pop_back();
      ++moved_;
      --left;
    }
  }

  [[nodiscard]] double use() const {
    wire::StatusReply status;
    ledger_.describe(status);
    return static_cast<double>(status.lent) / arena_->frames();
  }
  void look() {
    const double use_now = use();
    const bool served = ledger_.load().largest_free >= kLong;
    result_.mean_use += use_now;
    result_.served += served ? 1 : 0;
    if (use_now >= 0.9) return;
    ++below_;
    result_.served_below_90 += served ? 1 : 0;
  }

  const ChurnStudy study_;
  Random random_;
  std::unique_ptr<Arena> arena_;
  Ledger ledger_;
  Clock::time_point now_{};
  std::vector<Program> programs_;
  ChurnResult result_;
  double below_ = 0;
  double asked_ = 0;
  double refused_ = 0;
  double moved_ = 0;
};

}  // namespace

ChurnResult simulate_churn(const ChurnStudy& study) {
  return Churn(study).run();
}

}  // namespace comex::sim
