// A member with its keeper on a fake node, for the tests of both.
#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pool/fake_link_test.h"
#include "pool/keeper.h"
#include "pool/member.h"

namespace comex::testing_support {

// Small times, so that tests are quick; nothing depends on their being met.
inline MemberConfig quick_config() {
  MemberConfig config;
  config.returns.age = Millis(5);
  config.backoff_first = Millis(2);
  config.backoff_longest = Millis(50);
  config.ask_again_first = Millis(2);
  config.ask_again_longest = Millis(20);
  return config;
}

inline std::vector<std::byte> page_of(std::uint8_t value) {
  return std::vector(kPageSize, std::byte{value});
}

class KeptMember {
 public:
  explicit KeptMember(FakeNode& node, const MemberConfig& config = quick_config(), const LinkOptions& options = {})
      : member_(NodeId{0}, Url{}, config) {
    Keeper::Hooks hooks;
    hooks.new_id = [this]() -> std::optional<NodeId> {
      if (ids_left_-- <= 0) return std::nullopt;
      return NodeId{++last_id_};
    };
    hooks.changed = [this] { ++changes_; };
    hooks.frames_arrived = [] {};
    hooks.lost = [this](const Loss& loss) {
      const std::lock_guard lock(mutex_);
      losses_.push_back(loss);
    };
    hooks.notice = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      notices_.emplace_back(line);
    };
    keeper_ = std::make_unique<Keeper>(
        member_, options, [&node](const Url& url, const LinkOptions& how) { return node.connect(url, how); }, 1, 7,
        std::move(hooks));
  }

  Member* operator->() { return &member_; }
  Keeper& keeper() { return *keeper_; }
  void start(Role role = Role::active) {
    member_.set_role(role);
    keeper_->start();
  }
  void stop() {
    keeper_->request_stop();
    keeper_->finish(Deadline(std::chrono::seconds(30)));
  }
  [[nodiscard]] bool becomes(MemberState state) {
    return eventually([&] { return member_.state() == state; });
  }
  // A run taken as soon as there is one.
  [[nodiscard]] std::optional<comex::Run> take(std::uint32_t want) {
    std::optional<comex::Run> run;
    (void)eventually([&] { return (run = member_.take(want)).has_value(); });
    return run;
  }
  Errc write(const comex::Location& where, std::vector<std::byte> page) {
    const Segment segment{where.frame, 1, page.data()};
    Transfer transfer(Direction::write, {&segment, 1});
    return member_.move(where.node, transfer);
  }
  Errc read(const comex::Location& where, std::vector<std::byte>& page) {
    page.resize(kPageSize);
    const Segment segment{where.frame, 1, page.data()};
    Transfer transfer(Direction::read, {&segment, 1});
    return member_.move(where.node, transfer);
  }
  [[nodiscard]] std::vector<Loss> losses() {
    const std::lock_guard lock(mutex_);
    return losses_;
  }
  [[nodiscard]] std::vector<std::string> notices() {
    const std::lock_guard lock(mutex_);
    return notices_;
  }
  [[nodiscard]] int changes() const { return changes_; }
  void allow_ids(int n) { ids_left_ = n; }

 private:
  Member member_;
  std::mutex mutex_;
  std::vector<Loss> losses_;
  std::vector<std::string> notices_;
  std::atomic<int> changes_{0};
  std::atomic<int> ids_left_{100};
  std::uint16_t last_id_ = 0;
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace comex::testing_support
