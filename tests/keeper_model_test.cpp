// Several processes that take, write, check, give back, fork, die and are killed at random, on a node that empties
// slabs now and then, so that what they have is moved; what each wrote stays what it is, and in the end nothing is
// left.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <vector>

#include "support/kept.h"

namespace comex::test {
namespace {

constexpr int kWorkers = 4;
constexpr int kSteps = 400;

struct Held {
  std::vector<comex::Run> runs;
  std::uint64_t seed;
};

// While it is moved there may be no place for a moment.
Errc write_in_time(Outpost& outpost, const Held& one) {
  for (const Deadline deadline(kPatience);;) {
    const Errc result = write_seed(outpost, one.runs, one.seed);
    if (result != Errc::disconnected || outpost.wait_until_readable(one.runs[0].at(0), deadline) != Errc::ok) {
      return result;
    }
  }
}

// 0, or what went wrong.
int live(Outpost& outpost, std::uint64_t seed, int steps, int generation) {
  std::mt19937_64 random(seed);
  std::vector<Held> held;
  std::vector<pid_t> children;
  for (int step = 0; step < steps; ++step) {
    switch (random() % 10) {
      case 0:
      case 1:
      case 2: {
        if (outpost.wait_for_frames(1, Deadline(Millis(200))) != Errc::ok) break;
        const auto run = outpost.take(static_cast<std::uint32_t>(random() % 40 + 1));
        if (!run) break;
        held.push_back(Held{{*run}, random()});
        if (write_in_time(outpost, held.back()) != Errc::ok) return 21;
        break;
      }
      case 3:
      case 4:
        if (held.size() > 8) {
          const std::size_t i = random() % held.size();
          for (const auto& run : held[i].runs) outpost.give_back(run);
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
        }
        break;
      case 5:
        if (const auto run = outpost.take(5)) outpost.put_back(*run);
        break;
      case 6: outpost.tend(); break;
      case 7: {
        if (generation == 2 || children.size() == 2 || random() % 4 != 0) break;
        if (outpost.before_fork(Deadline(kPatience)) != Errc::ok) return 22;
        const pid_t child = ::fork();
        if (child == 0) {
          if (outpost.after_fork_in_child() != Errc::ok) ::_exit(23);
          for (const Held& one : held) {
            if (outpost.wait_until_readable(one.runs[0].at(0), Deadline(kPatience)) != Errc::ok) ::_exit(24);
            if (!has_seed_in_time(outpost, one.runs, one.seed)) ::_exit(25);
          }
          for (const Held& one : held) {
            for (const auto& run : one.runs) outpost.give_back(run);
          }
          ::_exit(live(outpost, seed * 31 + static_cast<std::uint64_t>(step), steps / 2, generation + 1));
        }
        outpost.after_fork_in_parent();
        children.push_back(child);
        break;
      }
      default:
        if (!held.empty()) {
          const Held& one = held[random() % held.size()];
          if (!has_seed_in_time(outpost, one.runs, one.seed)) return 26;
        }
    }
    if (outpost.keeper_gone()) return 27;
  }
  int result = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status)) return 28;
    if (WEXITSTATUS(status) != 0) result = WEXITSTATUS(status);
  }
  return result;
}

class KeeperModel : public testing::TestWithParam<Over> {};
INSTANTIATE_TEST_SUITE_P(Over, KeeperModel, testing::ValuesIn(kept_media()),
                         [](const auto& over) { return over_name(over.param); });

TEST_P(KeeperModel, random_lives) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.push_back(std::make_unique<Worker>([i](const Worker::Line&, Outpost& outpost) {
      return live(outpost, 100 + static_cast<std::uint64_t>(i), kSteps, 0);
    }));
  }
  // And some that are killed whenever it happens.
  std::vector<std::unique_ptr<Worker>> victims;
  for (int i = 0; i < kWorkers; ++i) {
    victims.push_back(std::make_unique<Worker>([i](const Worker::Line&, Outpost& outpost) {
      return live(outpost, 200 + static_cast<std::uint64_t>(i), 1'000'000, 2);
    }));
  }
  Kept kept(GetParam(), 128 << 20);
  for (const auto& worker : workers) worker->go(kept);
  for (const auto& victim : victims) {
    victim->go(kept);
    std::this_thread::sleep_for(Millis(50));
    victim->kill();
  }
  for (const auto& worker : workers) EXPECT_EQ(worker->wait(), 0);
  EXPECT_TRUE(kept.processes_soon(0));
  EXPECT_TRUE(kept.frames_held_soon(0));
}

}  // namespace
}  // namespace comex::test
